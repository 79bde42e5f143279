"""The door through which the Pulumi engine enters the program."""

import gc

# Pulumi's classes for AWS and Kubernetes are a million objects that stay: looking through them for garbage again and again
# took a fifth of the program's time.
gc.set_threshold(50_000, 20, 100)

from infra import call_stack  # noqa: E402 - most of those objects come with it
from infra.app import main  # noqa: E402

call_stack.end_at(__file__)
main()
