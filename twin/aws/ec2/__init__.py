"""EC2 and VPC types."""
