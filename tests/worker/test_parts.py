"""The worker's parts separately: limit, batches, messages in hand, health, settings, imports."""

from __future__ import annotations

import ast
import asyncio
import os
import socket
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import worker
from worker import health, log
from worker.__main__ import main
from worker.aws import Aws
from worker.batches import Batcher, EntryRefused
from worker.failures import Stopping
from worker.health import Health, HealthServer
from worker.in_flight import InFlight
from worker.limit import ConcurrencyLimit
from worker.metrics import Metrics
from worker.queue import Message
from worker.settings import InvalidSettings, from_environment

_ENVIRONMENT = {
    "WORKER_QUEUE_URL": "https://q/1/requests",
    "WORKER_BUCKET": "bucket",
    "WORKER_TRITON_URL": "t:1",
    "WORKER_CONCURRENCY": "1",
    "WORKER_INPUT_MIB": "64",
    "WORKER_VISIBILITY_SECONDS": "60",
}
_FLEET = '["dns:///triton-g5-headless.triton:8001"]'


def message(name: str = "m") -> Message:
    return Message(id=name, receipt=f"receipt-{name}", body="", receives=1, sent_at=0.0)


def test_the_limit_halves_once_for_refusals_that_come_together_and_comes_back() -> None:
    now = [0.0]
    limit = ConcurrencyLimit(16, clock=lambda: now[0])
    for _ in range(5):
        limit.refused()
    assert limit.value == 8
    for second in range(1, 10):
        now[0] = float(second)
        limit.refused()
    assert limit.value == 1
    answers = 0
    while limit.value < 16:
        limit.answered()
        answers += 1
    assert 16 <= answers <= 16 * 16
    limit.answered()
    assert limit.value == 16


def test_no_more_than_the_limit_are_at_triton_and_nobody_after_its_end() -> None:
    async def work() -> tuple[int, list[bool]]:
        limit, most, release = ConcurrencyLimit(3), 0, asyncio.Event()

        async def one() -> bool:
            nonlocal most
            try:
                async with limit.slot():
                    most = max(most, limit.running)
                    await release.wait()
            except Stopping:
                return False
            return True

        tasks = [asyncio.create_task(one()) for _ in range(5)]
        await asyncio.sleep(0)
        limit.close()
        release.set()
        return most, await asyncio.gather(*tasks)

    assert asyncio.run(work()) == (3, [True, True, True, False, False])


def test_each_entry_of_a_batch_has_a_fate_of_its_own() -> None:
    async def work() -> tuple[list[int], list[Any]]:
        sizes = []

        async def send(entries: list[dict[str, Any]]) -> dict[str, str]:
            sizes.append(len(entries))
            return {entry["Id"]: "too late" for entry in entries if entry["Number"] % 10 == 3}

        batcher = Batcher(send)
        fates = await asyncio.gather(*(batcher.add({"Number": n}) for n in range(13)), return_exceptions=True)
        return sizes, fates

    sizes, fates = asyncio.run(work())
    assert sizes == [10, 3]
    assert [type(fate) for fate in fates].count(EntryRefused) == 1
    assert str(fates[3]) == "too late"


def test_a_failed_call_fails_all_of_its_entries() -> None:
    async def work() -> list[Any]:
        async def send(entries: list[dict[str, Any]]) -> dict[str, str]:
            raise ConnectionError("away")

        batcher = Batcher(send)
        return await asyncio.gather(*(batcher.add({}) for _ in range(2)), return_exceptions=True)

    assert [str(fate) for fate in asyncio.run(work())] == ["away", "away"]


class Queue:
    """A queue that counts extensions and refuses those of messages in `gone`."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def keep(self, kept: Message) -> None:
        self.kept.append(kept.id)
        if kept.id == "gone":
            raise EntryRefused("ReceiptHandleIsInvalid")


def test_a_message_in_hand_is_extended_before_its_timeout_and_a_lost_one_is_let_go() -> None:
    async def work() -> list[str]:
        queue = Queue()
        in_flight = InFlight(queue, 1, Metrics())  # type: ignore[arg-type]
        in_flight.take(message("long"))
        in_flight.take(message("gone"))
        in_flight.take(message("short"))
        in_flight.drop(message("short"))
        keeping = asyncio.create_task(in_flight.keep())
        while queue.kept.count("long") < 2:
            await asyncio.sleep(0.01)
        keeping.cancel()
        return sorted(queue.kept)

    assert asyncio.run(asyncio.wait_for(work(), 60)) == ["gone", "long", "long"]


class SlowQueue:
    """A queue whose extensions wait for the test. It records its calls in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked: list[str] = []
        self.through = asyncio.Event()

    async def keep(self, kept: Message) -> None:
        self.asked.append(kept.id)
        if kept.id == "slow":
            await self.through.wait()
        self.done.append(kept.id)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_a_message_is_released_after_the_extension_that_is_under_way_and_never_extended_again() -> None:
    """If it were released earlier, the extension would hide the message for a whole timeout."""

    async def work() -> tuple[bool, list[str]]:
        queue = SlowQueue()
        in_flight = InFlight(queue, 1, Metrics())  # type: ignore[arg-type]
        in_flight.take(message("slow"))
        keeping = asyncio.create_task(in_flight.keep())
        await _until(lambda: queue.asked == ["slow"])
        releasing = asyncio.create_task(in_flight.release(message("slow")))
        await asyncio.sleep(0)
        early = releasing.done()
        queue.through.set()
        await releasing
        in_flight.take(message("other"))
        await _until(lambda: queue.asked.count("other") == 2)
        keeping.cancel()
        return early, [name for name in queue.asked if name == "slow"]

    assert asyncio.run(asyncio.wait_for(work(), 60)) == (False, ["slow"])


def test_no_message_waits_for_the_extension_of_another_one() -> None:
    async def work() -> list[str]:
        queue = SlowQueue()
        in_flight = InFlight(queue, 1, Metrics())  # type: ignore[arg-type]
        in_flight.take(message("slow"))
        in_flight.take(message("quick"))
        keeping = asyncio.create_task(in_flight.keep())
        await _until(lambda: queue.done.count("quick") == 3)
        keeping.cancel()
        return queue.asked

    assert asyncio.run(asyncio.wait_for(work(), 60)).count("slow") == 1


def test_probes_are_told_whether_the_loop_runs_and_the_queue_answers() -> None:
    now = [0.0]
    health = Health(clock=lambda: now[0])
    with HealthServer("127.0.0.1:0", health, Metrics()) as server:

        def ask(path: str) -> int:
            try:
                return int(urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=60).status)
            except urllib.error.HTTPError as error:
                return int(error.code)

        assert [ask(path) for path in ("/livez", "/readyz", "/metrics", "/other")] == [200, 503, 200, 404]
        health.ready = True
        now[0] = 31.0
        assert [ask(path) for path in ("/livez", "/readyz")] == [503, 200]
        health.beat()
        assert ask("/livez") == 200


def test_an_environment_is_wrong_in_all_its_variables_at_once() -> None:
    given = {"WORKER_BUCKET": "b", "WORKER_POLL_SECONDS": "21", "WORKER_TYPO": "1", "PATH": "/bin"}
    with pytest.raises(InvalidSettings) as caught:
        from_environment(given)
    assert {line.partition(":")[0] for line in str(caught.value).splitlines()} == {
        *("WORKER_BUCKET", "WORKER_POLL_SECONDS", "WORKER_TYPO", "WORKER_QUEUE_URL", "WORKER_TRITON_URL"),
        *("WORKER_CONCURRENCY", "WORKER_INPUT_MIB", "WORKER_VISIBILITY_SECONDS"),
    }


def test_an_environment_without_a_region_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    with pytest.raises(InvalidSettings, match="AWS_DEFAULT_REGION: is missing; give the region"):
        Aws(concurrency=1)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        *(
            ("TRITON_FLEETS", value, f'{said}; give JSON of models and gRPC names, like {{"classify": {_FLEET}}}')
            for value, said in (
                ("{", "{ is no JSON"),
                ('{"a": ["t"]}', "t is no such address"),
                ('{"a": ["t:0"]}', "0 is no port; ports are 1 to 65535"),
                ('{"a": ["t:1"], "a": ["u:1"]}', 'the key "a" is there twice in one object'),
                ('{"../a": ["t:1"]}', "../a is wrong"),
                ("[" * 100_000, "it is nested too deep"),
            )
        ),
        ("QUEUE_URL", "", "is blank; give the queue's URL, like https://sqs.<region>.amazonaws.com/…"),
        ("QUEUE_URL", "queue", "queue is wrong; give the queue's URL, like https://sqs.<region>.amazonaws.com/…"),
        ("BUCKET", "  ", "is blank; give the name of the requests' bucket"),
        ("BUCKET", "s3://bucket", "s3://bucket is wrong; give the name of the requests' bucket"),
        *(
            ("TRITON_URL", value, f"{said}; give a gRPC name with a port, like dns:///triton-headless.triton:8001")
            for value, said in (
                ("triton", "triton is no such address"),
                ("http://triton:8001", "http://triton:8001 is no such address"),
                ("dns:///triton:99999", "99999 is no port; ports are 1 to 65535"),
                ("dns:///triton:", "nothing is no port; ports are 1 to 65535"),
                ("dns:///triton:0", "0 is no port; ports are 1 to 65535"),
                ("dns:///:8001", "dns:///:8001 is no such address"),
                ("dns://triton:8001", "dns://triton:8001 is no such address"),
                ("grpc://triton:8001", "grpc://triton:8001 is no such address"),
                ("HTTP://triton:8001", "HTTP://triton:8001 is no such address"),
                ("tri\x01ton:8001", "'tri\\x01ton:8001' is no such address"),
            )
        ),
        ("CONCURRENCY", "many", "many is wrong; give a whole number from 1 to 1000"),
        *(
            ("BUCKET", name, f"{name} is wrong; give the name of the requests' bucket")
            for name in ("a..b", "10.0.0.1", "a.-b")
        ),
        *(
            ("QUEUE_URL", url, f"{url} is wrong; give the queue's URL, like https://sqs.<region>.amazonaws.com/…")
            for url in ("https://sqs", "https://sqs/", "https://me@sqs/1/q", "https://sqs/1/q?x")
        ),
        *(
            ("CONCURRENCY", number, f"{number} is wrong; give a whole number from 1 to 1000")
            for number in ("1_0", "5.0", " 5", "5\n", "010", "+5", "٣")
        ),
        *(
            ("REQUEST_SECONDS", number, f"{number} is wrong; give seconds, more than 0 and at most 3600")
            for number in ("1_0", "010", " 5", "inf", "1,5")
        ),
        ("bucket", "other", "is no setting of the worker; write WORKER_BUCKET"),
        (
            "REPLY_QUEUES",
            _ENVIRONMENT["WORKER_QUEUE_URL"],
            f"{_ENVIRONMENT['WORKER_QUEUE_URL']} is the queue of the requests, where an answer would be one; "
            "give URLs of queues, separated by commas",
        ),
        ("CONCURRENCY", "1.5", "1.5 is wrong; give a whole number from 1 to 1000"),
        ("REQUEST_SECONDS", "nan", "nan is wrong; give seconds, more than 0 and at most 3600"),
        (
            "LISTEN",
            "127.0.0.1:99999",
            "99999 is no port; ports are 0 to 65535; give an address and a port, like 127.0.0.1:8080 or [::1]:8080",
        ),
        ("LISTEN", "::1:8080", "::1:8080 is wrong; give an address and a port, like 127.0.0.1:8080 or [::1]:8080"),
        ("LISTEN", "8080", "8080 is wrong; give an address and a port, like 127.0.0.1:8080 or [::1]:8080"),
        ("REPLY_QUEUES", ",,", ",, names no queue; give URLs of queues, separated by commas"),
        ("REPLY_QUEUES", " ", "is blank; give URLs of queues, separated by commas"),
        ("REPLY_QUEUES", "https://q/1/a,queue", "queue is wrong; give URLs of queues, separated by commas"),
        ("REPLY_QUEUE", "https://q/1/a", "is no setting of the worker; did you mean WORKER_REPLY_QUEUES?"),
    ],
)
def test_a_wrong_variable_is_told_with_what_would_be_right(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        from_environment({**_ENVIRONMENT, f"WORKER_{name}": value})
    assert str(caught.value) == f"WORKER_{name}: {said}"


@pytest.mark.parametrize(
    ("listen", "host", "family"),
    [("[::1]:8080", "::1", socket.AF_INET6), ("127.0.0.1:8080", "127.0.0.1", socket.AF_INET)],
)
def test_it_listens_at_addresses_of_both_families(
    monkeypatch: pytest.MonkeyPatch, listen: str, host: str, family: socket.AddressFamily
) -> None:
    asked: list[Any] = []

    def make(*arguments: Any) -> Any:
        asked.extend([arguments[0], arguments[1], arguments[3].address_family])
        raise OSError("not here")

    monkeypatch.setattr(health, "make_server", make)
    settings = from_environment({**_ENVIRONMENT, "WORKER_LISTEN": listen})
    with pytest.raises(InvalidSettings):
        HealthServer(settings.listen, Health(), Metrics())
    assert asked == [host, 8080, family]


def test_a_busy_port_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with HealthServer("127.0.0.1:0", Health(), Metrics()) as server:
        with pytest.raises(InvalidSettings) as caught:
            HealthServer(f"127.0.0.1:{server.port}", Health(), Metrics())
        assert str(caught.value) == (
            f"WORKER_LISTEN: cannot listen at 127.0.0.1:{server.port} (Address already in use); "
            "give another address and port"
        )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AWS_ENDPOINT_URL", "nonsense", "AWS: Invalid endpoint: nonsense; look at AWS_ENDPOINT_URL"),
        ("AWS_PROFILE", "nobody", "AWS: The config profile (nobody) could not be found; look at AWS_ENDPOINT_URL"),
    ],
)
def test_what_awss_client_refuses_is_told_beside_the_other_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, said: str
) -> None:
    for variable in [variable for variable in os.environ if variable.startswith(("AWS_", "WORKER_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv(name, value)
    for variable, given in _ENVIRONMENT.items():
        monkeypatch.setenv(variable, given)
    monkeypatch.setenv("WORKER_BUCKET", "B")

    monkeypatch.setattr(log, "configure", lambda: None)  # it affects the whole process

    assert main() == 2

    wrong, aws = capsys.readouterr().err.splitlines()
    assert wrong == "WORKER_BUCKET: B is wrong; give the name of the requests' bucket"
    assert aws.startswith(said)


def test_a_grace_that_is_over_before_the_poll_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"WORKER_GRACE_SECONDS: .*20 s are over before the poll of 20 s"):
        from_environment({**_ENVIRONMENT, "WORKER_GRACE_SECONDS": "20"})


def test_the_image_holds_everything_that_the_worker_imports() -> None:
    """It holds only the package and the packages of worker/requirements.in."""
    folder = Path(worker.__file__).parent
    names = {"google": "tritonclient", "botocore": "boto3", "prometheus_client": "prometheus-client"}
    lines = (folder / "requirements.in").read_text().splitlines()
    wanted = {Requirement(line).name for line in lines if line and not line.startswith("#")}
    locked = {line.split("==")[0] for line in (folder / "requirements.txt").read_text().splitlines() if "==" in line}
    assert wanted <= locked
    imported = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                imported.add(node.module.split(".")[0])
            elif isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
    foreign = {names.get(name, name) for name in imported - set(sys.stdlib_module_names) - {"worker"}}
    assert foreign <= wanted
