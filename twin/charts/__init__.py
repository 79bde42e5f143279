"""The charts that a stack installs, each with its substitute on the twin. `registry` lists them all."""
