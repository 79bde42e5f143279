"""Stand-ins for what the official pulumi-eks component provider does."""
