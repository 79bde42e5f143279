"""IAM types."""
