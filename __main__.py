"""The door through which the Pulumi engine enters the program."""

import gc

from infra.app import main

# Pulumi's classes for AWS and Kubernetes are a million objects that stay: looking through them for garbage again and again
# took a fifth of the program's time.
gc.set_threshold(50_000, 20, 100)
main()
