"""Show a server on the disk of its pod what `live/` says: its configs, with the versions that releases here have.

live/<digest>/<model>/config.pbtxt    as in the bucket's live/
live/<digest>/<model>/<version>       a link into the release that has it; so is what versions share

A view never changes: another takes its place by `current`, in one step.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.fetch.directory import FetchDirectory
from modelctl.store.followed import FollowedModel, digest
from modelctl.store.manifest import Manifest
from spec.failure import NOT_TRIED, Failure
from spec.names import LIVE_PREFIX, RELEASES_PREFIX

_CONFIGS = {"config.pbtxt", "configs"}


class Incomplete(Failure):
    """A config names a version that no release here has; the text names it."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class LiveView:
    """The configs of live/ by model, and for each model what is linked to a release: name and release id."""

    configs: Mapping[str, str]
    links: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, configs: Mapping[str, str], releases: Iterable[Manifest]) -> LiveView:
        """Return the view of these configs; of what two releases have the first one's is taken.

        All versions of the releases are there, whatever the configs name: a server may still have them loaded. Raises
        Incomplete.
        """
        if not configs:
            raise Incomplete("live/ has no model, so there is nothing to serve: fill it with `modelctl rollout`")
        links: dict[str, dict[str, str]] = {model: {} for model in configs}
        for manifest in releases:
            for key in manifest.objects:
                model, _, rest = key.partition("/")
                name = rest.partition("/")[0]
                if model in links and name not in _CONFIGS:
                    links[model].setdefault(name, manifest.id)
        for model, text in configs.items():
            missing = [version for version in named_versions(text) if str(version) not in links[model]]
            if missing:
                raise Incomplete(f"live/ has version {missing[0]} of {model}, and none of the releases here does")
        return cls(configs, links)

    @property
    def name(self) -> str:
        """Return the folder of the view, which follows from what it shows."""
        content = json.dumps([sorted(self.configs.items()), {m: sorted(of.items()) for m, of in sorted(self.links.items())}])
        return f"{LIVE_PREFIX}{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def models(self) -> dict[str, FollowedModel]:
        """Return what a server can load."""
        return {
            model: FollowedModel(
                versions=tuple(sorted(int(name) for name in self.links[model] if name.isdecimal())), config=digest(text)
            )
            for model, text in self.configs.items()
        }

    def show(self, directory: FetchDirectory) -> None:
        """Write the view and let `current` lead to it; earlier views go. Raises OSError."""
        target = directory.root / self.name
        if not target.is_dir():
            self._write(directory.root / LIVE_PREFIX / ".new", target)
        directory.switch(self.name)
        for other in target.parent.iterdir():
            if other != target:
                shutil.rmtree(other)

    def _write(self, new: Path, target: Path) -> None:
        shutil.rmtree(new, ignore_errors=True)
        for model, text in self.configs.items():
            (new / model).mkdir(parents=True)
            (new / model / "config.pbtxt").write_text(text)
            for name, release_id in self.links[model].items():
                (new / model / name).symlink_to(f"../../../{RELEASES_PREFIX}{release_id}/{model}/{name}")
        new.mkdir(parents=True, exist_ok=True)
        new.rename(target)


def named_versions(config: str) -> list[int]:
    """Return the versions that a config of live/ names. Raises Incomplete for what is no config."""
    try:
        return list(text_format.Parse(config, ModelConfig()).version_policy.specific.versions)
    except text_format.ParseError as error:
        raise Incomplete(f"live/ has a config.pbtxt that is none ({error}); restore its earlier object version") from None


def forget_views(directory: FetchDirectory) -> None:
    """Remove all views, which no server reads yet: after a crash of the machine they may have lost what was in memory."""
    shutil.rmtree(directory.root / LIVE_PREFIX, ignore_errors=True)
