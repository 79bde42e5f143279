"""Poll interval of the sidecar that follows rollouts (`modelctl follow`)."""

POLL_SECONDS = 2.0
"""Seconds between two polls of the bucket. A poll without a change is one S3 request."""
