"""Show `live/` to a server on its pod's disk.

  live/<digest>/<model>/config.pbtxt    as in the bucket's live/
  live/<digest>/<model>/<version>       a link into the release that has it; files that versions share are links too

A view never changes: `current` switches to a new view atomically.
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
    """A config names a version that is in no release here; the text names it."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class LiveView:
    """The configs of live/ by model, and each model's links to releases. A link has a name and a release id."""

    configs: Mapping[str, str]
    links: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, configs: Mapping[str, str], releases: Iterable[Manifest]) -> LiveView:
        """Return the view of these configs. If two releases have the same name, the first one is used.

        The view has all versions of the releases, even if no config names them, because a server may still have them loaded.
        Raises Incomplete.
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
        """Return the folder of the view, named after a hash of its content."""
        content = json.dumps([sorted(self.configs.items()), {m: sorted(of.items()) for m, of in sorted(self.links.items())}])
        return f"{LIVE_PREFIX}{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def models(self) -> dict[str, FollowedModel]:
        """Return the models that a server can load."""
        return {
            model: FollowedModel(
                versions=tuple(sorted(int(name) for name in self.links[model] if name.isdecimal())), config=digest(text)
            )
            for model, text in self.configs.items()
        }

    def show(self, directory: FetchDirectory) -> None:
        """Write the view, point `current` to it, and delete earlier views. Raises OSError."""
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
    """Return the versions that a config of live/ names. Raises Incomplete for an invalid config."""
    try:
        return list(text_format.Parse(config, ModelConfig()).version_policy.specific.versions)
    except text_format.ParseError as error:
        raise Incomplete(f"live/ has a config.pbtxt that is none ({error}); restore its earlier object version") from None


def forget_views(directory: FetchDirectory) -> None:
    """Remove all views before a server reads them. After a crash of the machine they may have lost data."""
    shutil.rmtree(directory.root / LIVE_PREFIX, ignore_errors=True)
