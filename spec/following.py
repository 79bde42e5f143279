"""How often a sidecar that follows rollouts (`modelctl follow`) looks at the bucket."""

POLL_SECONDS = 2.0
"""Between two looks; where nothing has changed, one is a request to S3."""
