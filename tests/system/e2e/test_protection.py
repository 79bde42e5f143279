"""The real engine's protections: only there the transform for children of `eks.Cluster` runs."""

import json

from tests.system.e2e.conftest import Twin


def test_the_engine_protects_cluster_vpc_keys_and_models_and_nothing_else(twin: Twin) -> None:
    done = twin.shell("pulumi preview --stack staging --json --non-interactive", seconds=600)
    assert done.returncode == 0, done.stdout + done.stderr
    planned = [step["newState"] for step in json.loads(done.stdout)["steps"]]
    assert sorted(state["urn"].rpartition("::")[2] for state in planned if state.get("protect")) == [
        "cluster-control-plane-eksCluster",
        "cluster-secrets-key",
        "logs-key",
        "models-bucket",
        "models-encryption-key",
        "network-vpc",
        "requests-encryption-key",
    ]
