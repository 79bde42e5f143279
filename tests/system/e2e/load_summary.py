"""The last lines of the output of `twin load`."""

import re

READY = re.compile(r"^ready pods: (\d+) at first, (\d+) at most, (\d+) at the end \(\d+ s\)$", re.M)
ANSWERED = re.compile(r"^(\d+) requests: (\d+) answered, 0 failed; p50 \d+ ms, p95 \d+ ms$", re.M)
CHANGE = re.compile(r"^ +(\d+) s  wanted \d+, ready (\d+)$", re.M)
STARTS = re.compile(r"^from wanted to ready: \d+ s", re.M)
