"""Try on a real account what docs/proven.md claims: bring a stack up, look, take it away, and say what agreed."""
