"""Once per AWS account: state bucket, secrets key, GitHub's identity provider, and the two roles of its workflows."""
