"""EKS types."""
