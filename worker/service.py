"""Run the worker: poll, work, and stop without losing track of a message.

After SIGTERM the worker stops polling. Messages that wait for their turn become visible again at once; messages at Triton
are finished. When `grace_seconds` are almost over, the rest becomes visible again too. A running poll is awaited, because
SQS may already have assigned messages to it, which would stay invisible until their visibility timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time

import structlog

from worker.aws import AWS_ERRORS, Aws, code
from worker.batches import EntryRefused
from worker.failures import AttemptFailed, Stopping, Unavailable
from worker.health import Health, HealthServer
from worker.in_flight import InFlight
from worker.limit import ConcurrencyLimit
from worker.metrics import Metrics
from worker.processing import Processor
from worker.queue import Message, RequestQueue
from worker.settings import WorkerSettings
from worker.store import Store
from worker.triton import Triton

log = structlog.get_logger()
_BEAT_SECONDS = 1.0
_LONGEST_POLL_PAUSE_SECONDS = 30.0
_CLOSING_SECONDS = 5.0
"""Part of the grace period for returning messages at its end."""


async def serve(settings: WorkerSettings) -> None:
    """Work until SIGTERM or SIGINT, then stop as the module docstring describes."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    metrics, health = Metrics(), Health()
    aws = Aws(settings.concurrency)
    triton = Triton(settings.triton_url, settings.request_seconds, settings.triton_fleets)
    try:
        with HealthServer(settings.listen, health, metrics):
            await Worker(settings, aws, triton, metrics, health, stopping).run()
    finally:
        await triton.close()
        aws.close()


class Worker:
    """One worker from start to stop."""

    def __init__(
        self,
        settings: WorkerSettings,
        aws: Aws,
        triton: Triton,
        metrics: Metrics,
        health: Health,
        stopping: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._health = health
        self._stopping = stopping
        self._queue = RequestQueue(aws.sqs, settings.queue_url, settings.visibility_seconds, settings.poll_seconds)
        self._store = Store(aws.s3, settings.bucket)
        self._limit = ConcurrencyLimit(settings.concurrency)
        self._in_flight = InFlight(self._queue, settings.visibility_seconds, metrics)
        self._processor = Processor(settings, self._queue, self._store, triton, self._limit, metrics, stopping)
        self._working: set[asyncio.Task[None]] = set()
        self._finished = asyncio.Event()

    async def run(self) -> None:
        """Poll and work until `stopping` is set, then stop within the grace period."""
        log.info("started", queue=self._settings.queue_url, triton=self._settings.triton_url, limit=self._limit.value)
        keeping = [asyncio.create_task(self._in_flight.keep()), asyncio.create_task(self._beat())]
        polling = asyncio.create_task(self._poll())
        stop = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait({stop, polling, *keeping}, return_when="FIRST_COMPLETED")
            await self._end(polling)
            for task in done:
                task.result()  # an error of the worker itself ends it with a traceback, and its pod restarts
        finally:
            for task in (stop, polling, *keeping):
                task.cancel()
            await asyncio.gather(stop, polling, *keeping, return_exceptions=True)
            log.info("ended")

    async def _poll(self) -> None:
        """Receive messages while there is room: the limit, plus one waiting batch."""
        pause = 1.0
        while not self._stopping.is_set():
            if len(self._in_flight) > self._limit.value:
                await self._until_something_is_finished()
                continue
            try:
                # The first response makes the worker ready, so the first poll does not wait for messages.
                messages = await self._queue.receive(wait=self._health.ready)
            except AWS_ERRORS as error:
                self._metrics.polls.labels("error").inc()
                self._health.ready = False
                log.error("cannot receive", detail=f"{code(error)}: {error}", pause_seconds=pause)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)
                pause = min(2 * pause, _LONGEST_POLL_PAUSE_SECONDS)
                continue
            pause = 1.0
            self._metrics.polls.labels("messages" if messages else "empty").inc()
            self._health.ready = not self._stopping.is_set()
            for message in messages:
                self._metrics.received.inc()
                self._in_flight.take(message)
                task = asyncio.create_task(self._work(message))
                self._working.add(task)
                task.add_done_callback(self._working.discard)

    async def _until_something_is_finished(self) -> None:
        self._finished.clear()
        # The limit can also rise without a finished message.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._finished.wait(), _BEAT_SECONDS)

    async def _work(self, message: Message) -> None:
        """Process one message to its end. A cancelled message stays in flight, and `_end` returns it."""
        try:
            outcome = await self._processor.process(message)
            self._metrics.finished.labels(outcome.value).inc()
            self._in_flight.finished(message)
            await self._queue.delete(message)
        except AttemptFailed as failure:
            await self._fail(message, failure)
        except Stopping:
            await self._give_back(message)
        except (*AWS_ERRORS, EntryRefused) as error:
            # The result is stored. The message comes back, is recognized as a duplicate, and is deleted then.
            log.warning("not deleted", message=message.id, detail=str(error))
        except Exception:
            log.exception("the worker's own fault", message=message.id)
            await self._fail(message, AttemptFailed("failed", "a fault of the worker; its log says which"))
        self._in_flight.drop(message)
        self._finished.set()

    async def _fail(self, message: Message, failure: AttemptFailed) -> None:
        """Record the reason of a failure, and let the queue decide whether there is another attempt."""
        self._metrics.finished.labels("failed").inc()
        self._metrics.failures.labels(failure.reason).inc()
        log.warning("failed", message=message.id, attempt=message.receives, reason=failure.reason, detail=failure.detail)
        try:
            await self._store.record_failure(message, failure)
        except Unavailable as error:
            log.error("failure not recorded", message=message.id, detail=str(error))
        # A failure that is not final may be temporary, for example during a rollout.
        doublings = min(message.receives - 1, 10)
        delay = 0 if failure.final else self._settings.retry_seconds * 2**doublings
        await self._visible_after(message, delay)

    async def _give_back(self, message: Message) -> None:
        self._metrics.finished.labels("returned").inc()
        await self._visible_after(message, 0)

    async def _visible_after(self, message: Message, seconds: int) -> None:
        await self._in_flight.release(message)
        try:
            await self._queue.give_back(message, seconds)
        except (*AWS_ERRORS, EntryRefused) as error:
            log.warning("not given back; its visibility timeout does it", message=message.id, detail=str(error))
        self._in_flight.drop(message)

    async def _beat(self) -> None:
        while True:
            self._health.beat()
            self._metrics.limit.set(self._limit.value)
            await asyncio.sleep(_BEAT_SECONDS)

    async def _end(self, polling: asyncio.Task[None]) -> None:
        deadline = time.monotonic() + self._settings.grace_seconds - min(_CLOSING_SECONDS, self._settings.grace_seconds / 2)
        log.info("stopping", in_hand=len(self._in_flight), at_triton=self._limit.running)
        self._health.ready = False
        self._stopping.set()
        self._limit.close()
        # Check again each time, because the last poll may still bring messages.
        while unfinished := {task for task in (*self._working, polling) if not task.done()}:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                break
            await asyncio.wait(unfinished, timeout=seconds, return_when="FIRST_COMPLETED")
        left = [task for task in self._working if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.gather(*(self._give_back(message) for message in self._in_flight.messages()))
