"""The value file that caused a refusal by a chart's schema."""

import json
from pathlib import Path

import pytest

from twin.releases import helm

SCHEMA = {
    "additionalProperties": False,
    "properties": {
        "replicas": {"type": "integer"},
        "server": {
            "additionalProperties": False,
            "properties": {"port": {"type": "integer"}, "hosts": {"type": "array", "items": {"type": "string"}}},
        },
    },
}


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "chart"
    folder.mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 1.2.3\n")
    (folder / "values.schema.json").write_text(json.dumps(SCHEMA))
    return folder


def refused(chart: Path, values: dict[str, object], *files: Path) -> list[str]:
    with pytest.raises(helm.HelmError) as error:
        helm.render(chart, name="r", namespace="n", values=values, value_files=files)
    return str(error.value).splitlines()


def test_each_error_names_the_last_file_that_says_it(chart: Path, tmp_path: Path) -> None:
    base, overlay = tmp_path / "base.yaml", tmp_path / "prod.yaml"
    base.write_text("replicas: many\nserver: {port: one, hosts: [a, 1]}\n")
    overlay.write_text("server: {port: two, prot: 3}\nextra: 1\n")
    assert refused(chart, {}, base, overlay) == [
        f"{base}: replicas: got string, want integer",
        f"{base}: server.hosts[1]: got number, want string",
        f"{overlay}: server.port: got string, want integer",
        f"{overlay}: server: additional properties 'prot' not allowed",
        f"{overlay}: values: additional properties 'extra' not allowed",
    ]


def test_a_value_that_the_program_gives_is_no_files_fault(chart: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text("replicas: 1\n")
    assert refused(chart, {"replicas": "many"}, base) == ["replicas: got string, want integer"]
