"""Read an AWS account and a stack's resources in it; the clients cannot change anything."""
