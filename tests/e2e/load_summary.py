"""The last lines of `twin load`."""

import re

READY = re.compile(r"^ready pods: (\d+) at first, (\d+) at most, (\d+) at the end \(\d+ s\)$", re.M)
ANSWERED = re.compile(r"^(\d+) requests: (\d+) answered, 0 failed; p50 \d+ ms, p95 \d+ ms$", re.M)
