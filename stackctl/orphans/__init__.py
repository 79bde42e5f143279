"""List a stack's resources that AWS still has and bills, without changing them (docs/teardown.md)."""
