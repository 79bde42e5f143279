"""Set up an AWS account once. It gets a state bucket, a secrets key, and optionally GitHub's identity provider and roles."""
