"""KMS keys and aliases."""
