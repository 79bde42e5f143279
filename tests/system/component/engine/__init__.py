"""The program run in this process: a resource monitor that applies to moto and records every registration."""
