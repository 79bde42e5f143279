"""Hold what all commands share: how they start, fail and end, their options, and where their output goes."""
