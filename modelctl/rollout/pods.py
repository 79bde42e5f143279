"""The steps of a rollout on its pods: load, wait for clients, unload, restart.

They run on one pod at a time, so at most one pod is busy loading. The set of pods may change meanwhile. A pod that starts
reads `live/`, and every operation continues until all current pods comply.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from modelctl.repository.golden import Golden
from modelctl.rollout.fleet import Fleet, Pod
from modelctl.rollout.limits import Limits, until
from modelctl.rollout.metrics import Counters, VersionOf
from modelctl.rollout.pod_client import WITHOUT_TIME, ForwardBroke, PodClient, PodDown, PodHangs, PodProblem
from modelctl.store.followed import Followed
from spec.failure import NOT_TRIED, Failure

_BUSY = frozenset({"LOADING", "UNLOADING"})
_AT_ONCE = 8
"""The number of pods whose counters are read in parallel. A port forward takes some round trips to the API server."""


class StillAsked(Failure):
    """Clients still request a version after its end, or the check that they stopped had too little time."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Target:
    """The goal for one model on every pod: serve exactly these versions with this config. `config` is JSON for the load API.

    Without versions: unload the model. `golden` is the inference that version `proven` must pass. `on_disk` is the digest of
    the config that `live/` has then.
    """

    model: str
    versions: tuple[int, ...]
    config: str
    on_disk: str
    proven: int | None = None
    golden: Golden | None = None


class Pods:
    """The pods of a fleet.

    `check` is called before each step and raises when the rollout must stop. `tell` gets progress. Each pod gets only the
    targets for the models of its own fleet.
    """

    def __init__(self, fleet: Fleet, limits: Limits, check: Callable[[], None], tell: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._limits = limits
        self._check = check
        self._tell = tell

    def until_fetched_everywhere(self, targets: Sequence[Target], rollout: datetime) -> None:
        """Wait until each pod has fetched and verified all files of the targets. Only pods whose server reads its own disk
        count.

        `rollout`: when the rollout began. Raises PodProblem with the cause before any pod has loaded a model.
        """
        for pod in self._fleet.pods():
            if self._until_fetched(pod, _of(pod, targets), rollout=rollout) and pod.follower is not None:
                self._tell(f"{pod.name}: has fetched {_names(_of(pod, targets))}")

    def load_everywhere(self, targets: Sequence[Target], *, again: bool) -> None:
        """Load the targets on each pod and check that all pods serve them alike.

        `again`: also load versions that are ready. Raises PodProblem for the first pod that fails. If a pod dies, wait for
        it; it starts with the content of `live/`.
        """
        hashes: dict[tuple[str, str], str] = {}
        done: set[str] = set()
        while waiting := [pod for pod in self._fleet.pods() if pod.uid not in done]:
            pod = waiting[0]
            own = _of(pod, targets)
            if (not again and self._all_ready(pod, own)) or all(self._load(pod, target, hashes) for target in own):
                done.add(pod.uid)

    def settle_everywhere(self, targets: Sequence[Target]) -> None:
        """Make each pod serve only the targets of these models. Restart a pod if loading is not enough.

        Raises PodProblem when a pod does not come back, or restarts do not help.
        """
        done: set[str] = set()
        restarts = 0
        while waiting := [pod for pod in self._fleet.pods() if pod.uid not in done]:
            pod = waiting[0]
            own = _of(pod, targets)
            trouble = self._settle(pod, own) if own else None
            if trouble is not None and self._is_only_unready(trouble) and not self._others_serve(pod, own):
                self._tell(f"{trouble}; it is the only pod that serves, so it is left as it is")
                trouble = None
            if trouble is None:
                if own:
                    self._tell(f"{pod.name}: serves {_names(own)}")
                done.add(pod.uid)
                continue
            restarts += 1
            if restarts > 2 * len(done | {pod.uid for pod in waiting}):
                raise PodProblem(f"{trouble}, also after it was restarted")
            self._tell(f"{trouble}: it is restarted")
            self._restart(pod, targets)

    def wait_until_unasked(self, versions: Sequence[VersionOf]) -> None:
        """Wait until no pod has finished or queued a request for these versions for a while. Raises StillAsked.

        This waits for the clients. The server itself finishes accepted requests, even while it unloads the version
        (docs/facts/triton-server.md#model-control).
        """
        finished: dict[tuple[str, VersionOf], float] = {}
        last = ""
        quiet_since = time.monotonic()
        for _ in until(self._limits.drain, self._limits.poll, self._check):
            looked = time.monotonic()
            busy = False
            for uid, counters in self.counters().items():
                for version in versions:
                    now = counters.get(version, Counters())
                    if now.pending or finished.get((uid, version), now.finished) != now.finished:
                        busy, last = True, f"{version[0]} version {version[1]}"
                    finished[uid, version] = now.finished
            if busy:
                quiet_since = looked
            elif looked - quiet_since >= self._limits.quiet:
                return
        if last:
            raise StillAsked(f"after {self._limits.drain:g} s clients still ask for {last}")
        raise StillAsked(
            f"{self._limits.drain:g} s were too short to see for {self._limits.quiet:g} s that no client asks for "
            + ", ".join(f"{model} version {version}" for model, version in versions)
        )

    def counters(self) -> dict[str, Mapping[VersionOf, Counters]]:
        """Return the counters of each pod that responds, by the pod's uid."""
        pods = self._fleet.pods()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            counted = list(pool.map(_counters, pods))
        return {pod.uid: counters for pod, counters in zip(pods, counted, strict=True) if counters is not None}

    def _there(self, pod: Pod) -> bool:
        return any(other.uid == pod.uid for other in self._fleet.pods())

    def _all_ready(self, pod: Pod, targets: Sequence[Target]) -> bool:
        try:
            with PodClient(pod) as client:
                return all(client.ready(target.model, version) for target in targets for version in target.versions)
        except PodDown:
            return False

    def _until_fetched(
        self, pod: Pod, targets: Sequence[Target], *, patience: float = 0.0, rollout: datetime | None = None
    ) -> bool:
        """Wait for the files of the targets; return False when the pod is gone. Raises PodProblem when no more files arrive.

        A problem that the pod reports counts after `patience` seconds, because a pod looks every few seconds and reports the
        problem of the release before until then. If `rollout` is given, only problems of that rollout count.
        """
        began = last = time.monotonic()
        done, elsewhere = -1, None
        while True:
            self._check()
            if not self._there(pod):
                return False
            if pod.follower is None:
                return True
            try:
                with PodClient(pod) as client:
                    found = client.followed()
            except (PodDown, PodHangs):  # it restarts and continues
                found = None
            if found is not None:
                # A problem with another release does not matter: these files are on the disk.
                if all(_is_on_disk(target, found) for target in targets):
                    return True
                told = found.problem is not None and (rollout is None or found.rollout_started == rollout)
                if told and time.monotonic() - began >= patience:
                    raise PodProblem(f"{pod.name}: does not fetch {_names(targets)}: {found.problem}")
                if found.done_bytes != done:
                    done, last = found.done_bytes, time.monotonic()
            if elsewhere is None:
                elsewhere = self._arrived_but_on(pod)
            if time.monotonic() - last > self._limits.load:
                # Pods of a node may share a folder, and then fetch one after the other.
                before, elsewhere, last = elsewhere, self._arrived_but_on(pod), time.monotonic()
                if elsewhere != before:
                    continue
                raise PodProblem(
                    f"{pod.name}: has not fetched {_names(targets)} after {time.monotonic() - began:.0f} s, and nothing has "
                    f"arrived on any pod for {self._limits.load:g} s; `kubectl logs {pod.name} -c follow` says more"
                )
            time.sleep(self._limits.poll)

    def _arrived_but_on(self, waiting: Pod) -> int:
        """Return how many bytes have arrived on all other pods that report it."""
        total = 0
        for pod in self._fleet.pods():
            if pod.follower is None or pod.uid == waiting.uid:
                continue
            with contextlib.suppress(PodProblem), PodClient(pod) as client:
                total += client.followed().done_bytes
        return total

    def _load(self, pod: Pod, target: Target, hashes: dict[tuple[str, str], str]) -> bool:
        """Load and prove one target; return False when the pod is gone. If the pod is down, wait for it."""
        broke: ForwardBroke | None = None
        for _ in until(self._limits.restart, self._limits.poll, self._check):
            if not self._until_fetched(pod, [target]):
                return False
            try:
                with PodClient(pod) as client:
                    began = time.monotonic()
                    self._load_now(client, target)
                    self._prove(client, target, hashes)
                    self._tell(f"{pod.name}: loaded {_name(target)} in {time.monotonic() - began:.1f} s")
                    return True
            except PodDown:
                broke = None
            except ForwardBroke as lost:  # the server continues a load that it received, and then loads again what it has
                broke = lost
        raise broke or PodProblem(
            f"{pod.name}: does not answer for {self._limits.restart:g} s, with {_name(target)} to load"
        )

    def _load_now(self, client: PodClient, target: Target) -> None:
        try:
            client.load(target.model, target.config, self._limits.load)
        except ForwardBroke:
            raise
        except PodHangs:
            raise PodHangs(f"{client.pod.name}: loading {_name(target)} did not end in {self._limits.load:g} s") from None
        for _ in until(self._limits.load, self._limits.poll, self._check):
            if all(client.ready(target.model, version) for version in target.versions):
                return
        raise PodProblem(f"{client.pod.name}: {_name(target)} is loaded, but not ready after {self._limits.load:g} s")

    def _prove(self, client: PodClient, target: Target, hashes: dict[tuple[str, str], str]) -> None:
        name = client.pod.name
        for version in target.versions:
            found = client.config_hash(target.model, version)
            # Pods of another fleet may have another hash, because the server writes its GPUs into the config.
            expected = hashes.setdefault((client.pod.fleet, target.model), found)
            if found != expected:
                raise PodProblem(
                    f"{name}: serves {target.model} version {version} with another config ({found}) than the pods before "
                    f"it ({expected})"
                )
        if target.golden is None or target.proven is None:
            return
        answer = self._answer(client, target.model, target.proven, target.golden)
        if difference := target.golden.difference(answer):
            raise PodProblem(f"{name}: {target.model} version {target.proven} answers wrongly: {difference}")

    def _answer(self, client: PodClient, model: str, version: int, golden: Golden) -> dict[str, Any]:
        """Return the answer to a golden inference. Send it again if the pod has no time for it."""
        problem: PodProblem | None = None
        for _ in until(self._limits.load, self._limits.poll, self._check):
            try:
                return client.infer(model, version, golden.request())
            except WITHOUT_TIME as busy:
                problem = busy
        if isinstance(problem, ForwardBroke):
            raise problem
        raise PodProblem(f"{problem} for {self._limits.load:g} s, where {model} version {version} has to prove itself")

    def _settle(self, pod: Pod, targets: Sequence[Target]) -> str | None:
        """Bring one pod to the targets. Return the problem when only a restart helps, else None.

        Raises PodProblem when the pod is down for too long.
        """
        broke: ForwardBroke | None = None
        for _ in until(self._limits.restart, self._limits.poll, self._check):
            if not self._there(pod):
                return None
            try:
                with PodClient(pod) as client:
                    trouble = self._settle_now(client, targets)
                # The disk is checked too, so a restarted server finds only the targets. A follower that could not fetch the
                # rolled back release reports that until its next look; this needs no restart.
                return trouble if self._until_fetched(pod, targets, patience=self._limits.settle) else None
            except PodDown:
                broke = None
            except ForwardBroke as lost:
                broke = lost
            except PodProblem as problem:
                return str(problem)
        raise broke or PodProblem(f"{pod.name}: does not answer for {self._limits.restart:g} s")

    def _settle_now(self, client: PodClient, targets: Sequence[Target]) -> str | None:
        name = client.pod.name
        models = {target.model for target in targets}
        # A load that hangs blocks all later loads of the model.
        for _ in until(self._limits.settle, self._limits.poll, self._check):
            loading = [e for e in client.index() if e.model in models and e.state == "LOADING"]
            if not loading:
                break
        else:
            return f"{name}: has not ended loading {loading[0].model} version {loading[0].version}"
        for target in targets:
            if target.versions:
                client.load(target.model, target.config, self._limits.load)
            else:
                client.unload(target.model)
        wanted = {target.model: list(target.versions) for target in targets}
        for _ in until(self._limits.settle, self._limits.poll, self._check):
            entries = client.index()
            ready = client.ready_versions()
            busy = any(entry.state in _BUSY for entry in entries)
            if not busy and all(ready.get(model, []) == versions for model, versions in wanted.items()):
                break
        else:
            return f"{name}: does not come to serve {_names(targets)} alone"
        if any(entry.failed for entry in entries) and not client.server_ready():
            return f"{name}: {_UNREADY}"
        return None

    @staticmethod
    def _is_only_unready(trouble: str) -> bool:
        return trouble.endswith(_UNREADY)

    def _others_serve(self, pod: Pod, targets: Sequence[Target]) -> bool:
        others = (other for other in self._fleet.pods() if other.uid != pod.uid and other.fleet == pod.fleet)
        return any(self._all_ready(other, targets) for other in others)

    def _restart(self, pod: Pod, targets: Sequence[Target]) -> None:
        count = len(self._fleet.pods())
        self._fleet.restart(pod)
        for _ in until(self._limits.restart, self._limits.poll, self._check):
            pods = self._fleet.pods()
            if len(pods) >= count and all(self._all_ready(other, _of(other, targets)) for other in pods):
                return
        raise PodProblem(f"{pod.name}: was restarted, and no pod serves in its place after {self._limits.restart:g} s")


def _counters(pod: Pod) -> Mapping[VersionOf, Counters] | None:
    """Return the counters of a pod. None if it is down, since then it gets no requests."""
    try:
        with PodClient(pod) as client:
            return client.counters()
    except PodDown:
        return None


_UNREADY = "a load failed, and its /v2/health/ready stays at 400 until it restarts"


def _is_on_disk(target: Target, found: Followed) -> bool:
    model = found.models.get(target.model)
    if model is None or not target.versions:
        return model is None and not target.versions
    return model.config == target.on_disk and set(target.versions) <= set(model.versions)


def _of(pod: Pod, targets: Sequence[Target]) -> list[Target]:
    return [target for target in targets if pod.serves(target.model)]


def _name(target: Target) -> str:
    if not target.versions:
        return f"no {target.model}"
    return f"{target.model} {' and '.join(map(str, target.versions))}"


def _names(targets: Sequence[Target]) -> str:
    return ", ".join(_name(target) for target in targets)
