"""AWS settings for tests: moto's, never the developer's or machine's."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.loaders import JSONFileLoader, Loader


def use_none_of_the_developers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the developer's profile, endpoint, credentials and region from a test."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    # The session that `boto3.client` caches has the previous test's credentials.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-west-2")


@contextmanager
def service_models_read_once() -> Iterator[None]:
    """Cache boto3's service lists and models, which each session reads again, EC2's for half a second."""
    read: dict[str, Any] = {}
    listed: dict[str, list[str]] = {}
    load, available = JSONFileLoader.load_file, Loader.list_available_services

    def load_once(loader: JSONFileLoader, path: str) -> Any:
        if path not in read:
            read[path] = load(loader, path)
        return read[path]

    def list_once(loader: Loader, type_name: str) -> list[str]:
        key = f"{type_name} in {loader.search_paths}"
        if key not in listed:
            listed[key] = available(loader, type_name)
        return listed[key]

    with (
        mock.patch.object(JSONFileLoader, "load_file", load_once),
        mock.patch.object(Loader, "list_available_services", list_once),
    ):
        yield


@contextmanager
def ways_through_moto_found_once() -> Iterator[None]:
    """Cache a service's addresses and methods, which moto lists for each request (a fifth of its time)."""
    responses, backend = sys.modules.get("moto.core.responses"), sys.modules.get("moto.core.base_backend")
    if responses is None or backend is None:
        yield
        return
    urls: dict[tuple[type, int], Any] = {}
    find = backend.BaseBackend.urls.fget

    def found_once(self: Any) -> Any:
        key = type(self), id(self._url_module.url_paths)  # which a test may replace
        if key not in urls:
            urls[key] = find(self)
        return urls[key]

    with (
        mock.patch.object(responses, "method_names_from_class", cache(responses.method_names_from_class)),
        mock.patch.object(backend.BaseBackend, "urls", property(found_once)),
    ):
        yield
