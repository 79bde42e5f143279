"""The charts that a stack installs, each with what the twin has in its place. `registry` has them all."""
