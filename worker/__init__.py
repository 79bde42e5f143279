"""The asynchronous path: inference requests from an SQS queue, answered by Triton, each result stored once.

`python -m worker`, told everything by its environment (`worker.settings`). What a message looks like: `worker.message`.
What becomes of one: `worker.processing`. It imports nothing of the other packages of this repository: its image holds it
alone.
"""
