"""Once per AWS account: state bucket, secrets key, and on request GitHub's identity provider and its workflows' roles."""
