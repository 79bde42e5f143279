"""Connect to the cluster for commands: the kubeconfig's current context, or the cluster in which they run."""

from __future__ import annotations

import os
from pathlib import Path

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.util import Retry
from yaml import YAMLError

from modelctl.cluster import key_files
from spec import reading
from spec.failure import NOT_TRIED, Failure


class NoCluster(Failure):
    """No cluster is configured, or its configuration is unreadable; the text says what to set."""

    exit_code = NOT_TRIED


def connect() -> client.ApiClient:
    """Return a client of the cluster's API. Raises NoCluster."""
    try:
        _configure()
    except ConfigException as error:
        raise NoCluster(f"no cluster is configured ({error}): set KUBECONFIG, or run `aws eks update-kubeconfig`") from None
    configuration = client.Configuration.get_default_copy()
    # urllib3's default would wait as long as the response demands, even a day. These retries take 6 s in total, enough while
    # an API server is replaced.
    configuration.retries = Retry(5, backoff_factor=0.2, respect_retry_after_header=False)
    return client.ApiClient(configuration)


def _configure() -> None:
    """Do as `config.load_config`, which takes no directory for keys, and prints a line inside a cluster."""
    # Read here, because the library reads the environment when it is imported.
    kubeconfig = os.environ.get("KUBECONFIG")
    default = Path.home() / ".kube" / "config"
    if kubeconfig or default.exists():
        given = kubeconfig or str(default)
        for path in filter(None, given.split(os.pathsep)):
            if Path(path).exists():
                reading.text_file(Path(path))  # refuses a file that is not text with a clear message
        try:
            config.load_kube_config(config_file=given, temp_file_path=str(key_files.directory()))
        # The library does not validate values before it uses them.
        except (TypeError, AttributeError, KeyError, ValueError, RecursionError, YAMLError):
            raise NoCluster(f"{given} is no kubeconfig: set KUBECONFIG to one, or run `aws eks update-kubeconfig`") from None
    else:
        config.load_incluster_config()
