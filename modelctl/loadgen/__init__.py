"""An open-loop load generator.

Requests are sent when a schedule says so, not after the previous answer, and a latency counts from the scheduled time. So a
stalled server delays every request that was due during the stall. (A closed loop of clients would send fewer requests to a
slow server and measure it as fast: "coordinated omission".)

    schedule = Schedule.poisson(rate=50, seconds=10, seed=1)
    async with grpc_sender(["127.0.0.1:8001"], "classify", inputs) as send:
        result = await run(schedule, send)
    print(result.account(), result.throughput, result.percentile_ms(95), result.errors, result.tags)
"""

from modelctl.loadgen.grpc_sender import grpc_sender
from modelctl.loadgen.result import Account, Outcome, Result, Summary, Unaccounted
from modelctl.loadgen.runner import RequestFailed, Send, run
from modelctl.loadgen.schedule import Schedule
from modelctl.loadgen.sequences import Pace, sequence_sender
from modelctl.loadgen.streams import stream_sender

__all__ = [
    "Account",
    "Outcome",
    "Pace",
    "RequestFailed",
    "Result",
    "Schedule",
    "Send",
    "Summary",
    "Unaccounted",
    "grpc_sender",
    "run",
    "sequence_sender",
    "stream_sender",
]
