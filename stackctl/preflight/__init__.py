"""Report what an AWS account lacks for a stack, read-only and before `pulumi up` (docs/preflight.md)."""
