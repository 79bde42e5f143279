"""Answer inference requests from an SQS queue with Triton, and store each result once.

Run `python -m worker`; the environment configures it (`worker.settings`). For the format of a message see `worker.message`,
for its processing `worker.processing`. The package imports no other package of this repository, because its image contains
only this one.
"""
