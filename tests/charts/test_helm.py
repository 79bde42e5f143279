"""twin.releases.helm: runs real Helm offline and reports readable errors."""

from pathlib import Path

import pytest

from tests.charts import rendering
from twin.releases import helm
from twin.releases.helm import HelmError


def chart(folder: Path, template: str, *, kube_version: str = "", values: str = "{}\n", schema: str = "") -> Path:
    """Return a small chart with one template."""
    (folder / "templates").mkdir()
    constraint = f"kubeVersion: '{kube_version}'\n" if kube_version else ""
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: small\nversion: 1.2.3\n{constraint}")
    (folder / "values.yaml").write_text(values)
    (folder / "templates" / "all.yaml").write_text(template)
    (folder / "templates" / "NOTES.txt").write_text("not: [yaml")
    if schema:
        (folder / "values.schema.json").write_text(schema)
    return folder


def config_map(name: str, data: str = "{}", annotations: str = "{}") -> str:
    metadata = f"{{name: {name}, annotations: {annotations}}}"
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\ndata: {data}\n"


def render(folder: Path, **options: object) -> list[helm.Object]:
    return helm.render(folder, name="r", namespace="n", values={}, **options)  # type: ignore[arg-type]


def test_objects_come_in_the_order_of_installation(tmp_path: Path) -> None:
    kinds = ["Deployment", "Gadget", "Service", "ServiceAccount", "Namespace"]
    documents = [f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n" for kind in kinds]
    found = render(chart(tmp_path, "---\n".join(["\n", *documents])))
    assert rendering.kinds(found) == ["Namespace", "ServiceAccount", "Service", "Deployment", "Gadget"]


def test_objects_of_one_kind_keep_their_order(tmp_path: Path) -> None:
    found = render(chart(tmp_path, "---\n".join(config_map(name) for name in "zab")))
    assert [o["metadata"]["name"] for o in found] == ["z", "a", "b"]


def test_hooks_and_empty_documents_are_left_out(tmp_path: Path) -> None:
    hook = config_map("hook", annotations="{helm.sh/hook: post-install}")
    found = render(chart(tmp_path, f"# nothing\n---\n{hook}---\n{config_map('kept')}"))
    assert [o["metadata"]["name"] for o in found] == ["kept"]


def test_dates_and_equal_signs_stay_text(tmp_path: Path) -> None:
    (found,) = render(chart(tmp_path, config_map("a", "{date: 2026-11-21, sign: =}")))
    assert found["data"] == {"date": "2026-11-21", "sign": "="}


def test_templates_see_the_given_capabilities(tmp_path: Path) -> None:
    data = (
        '{v: "{{ .Capabilities.KubeVersion.Version }}", '
        'm: "{{ .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}", r: "{{ .Release.Namespace }}"}'
    )
    folder = chart(tmp_path, config_map("a", data))
    (found,) = render(folder, kube_version="v1.36.1", api_versions=["monitoring.coreos.com/v1"])
    assert found["data"] == {"v": "v1.36.1", "m": "true", "r": "n"}
    (found,) = render(folder)
    assert found["data"] == {"v": helm.DEFAULT_KUBE_VERSION, "m": "false", "r": "n"}


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("v1.31.0", True),
        ("v1.35.2-eks-1a2b3c4", True),
        ("v1.36.0", True),
        ("v1.30.9", False),
        ("v1.30.9-eks-1a2b3c4", False),
    ],
)
def test_the_charts_kubernetes_constraint_is_enforced(version: str, fits: bool) -> None:
    if fits:
        assert rendering.render(kube_version=version)
    else:
        with pytest.raises(HelmError) as error:
            rendering.render(kube_version=version)
        assert str(error.value) == f"chart triton 0.1.0: needs Kubernetes >=1.31.0-0, not {version}"


def test_value_files_are_merged_in_order_and_values_win(tmp_path: Path) -> None:
    values = "{a: {b: 0, c: 0, d: 0}, l: [0]}\n"
    folder = chart(tmp_path, config_map("a", "{v: {{ toJson .Values | quote }}}"), values=values)
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("a: {b: 1, c: 1}\nl: [1, 2]\n")
    second.write_text("a: {b: 2}\nl: [3]\n")
    (found,) = helm.render(folder, name="r", namespace="n", values={"a": {"c": 3}}, value_files=[first, second])
    assert found["data"] == {"v": '{"a":{"b":2,"c":3,"d":0},"l":[3]}'}


def test_an_empty_value_file_is_fine(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert render(chart(tmp_path, config_map("a")), value_files=[tmp_path / "empty.yaml"])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [1\n", "expected ',' or ']'"),
        ("a: 1\na: 2\n", "duplicate key a"),
        ("- a\n", "holds a list, not a map of values"),
        (None, "there is no such file; check the path"),
        (b"a: \xff\n", "not UTF-8; save the file in that encoding"),
        (b"a: \0\n", "a NUL character"),
    ],
)
def test_a_bad_value_file_is_named(tmp_path: Path, content: str | bytes | None, complaint: str) -> None:
    path = tmp_path / "values-of-mine.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(HelmError) as error:
        render(chart(tmp_path, config_map("a")), value_files=[path])
    assert str(error.value).startswith(f"{path}: ")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ('{{ fail "a: is wrong; b would be right" }}', "a: is wrong; b would be right"),
        ('{{ required "a: is missing" .Values.a }}', "a: is missing"),
        ("a: {b", "small/templates/all.yaml: renders broken YAML: "),
        ("- a", "small/templates/all.yaml: renders something that is no Kubernetes object"),
        ("a: 1", "small/templates/all.yaml: renders something that is no Kubernetes object"),
        (
            "apiVersion: v1\nkind: A\nkind: B\nmetadata: {}",
            "small/templates/all.yaml: renders broken YAML: duplicate key kind",
        ),
    ],
)
def test_a_chart_that_fails_says_why(tmp_path: Path, template: str, sentence: str) -> None:
    with pytest.raises(HelmError) as error:
        render(chart(tmp_path, template))
    assert str(error.value).startswith(sentence)


def test_a_failure_inside_an_included_template_says_only_why(tmp_path: Path) -> None:
    template = '{{ define "inner" }}{{ fail "a: is wrong\\nb: too" }}{{ end }}{{ include "inner" . }}'
    with pytest.raises(HelmError) as error:
        render(chart(tmp_path, template))
    assert str(error.value) == "a: is wrong\nb: too"


def test_schema_errors_name_the_value(tmp_path: Path) -> None:
    schema = '{"properties": {"a": {"items": {"properties": {"x/y": {"type": "string"}}}}}}'
    folder = chart(tmp_path, config_map("a"), schema=schema)
    with pytest.raises(HelmError) as error:
        helm.render(folder, name="r", namespace="n", values={"a": [{}, {"x/y": 1}]})
    assert str(error.value) == "a[1].x/y: got number, want string"


def test_a_missing_chart_and_a_bad_release_name_are_errors_of_the_same_kind(tmp_path: Path) -> None:
    with pytest.raises(HelmError, match="no such file or directory"):
        render(tmp_path / "nowhere")
    with pytest.raises(HelmError, match=r"(?i)name"):
        helm.render(rendering.CHART, name="Not_a_name", namespace="n", values={})
