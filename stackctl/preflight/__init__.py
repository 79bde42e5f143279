"""Find out what an AWS account lacks for a stack, before `pulumi up` and without changing anything (docs/preflight.md)."""
