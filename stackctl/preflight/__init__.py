"""What an AWS account lacks for a stack, found out before `pulumi up` and without changing anything (docs/preflight.md)."""
