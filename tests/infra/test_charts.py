"""Value files as assets: which files they are, in which order."""

import pulumi

from infra.platform.charts import value_files, value_layers


def test_the_environments_file_comes_after_the_base_and_so_wins() -> None:
    files = value_files("triton", "prod")
    assert all(isinstance(file, pulumi.FileAsset) for file in files)
    assert [file.path for file in files] == ["helm-values/triton/base.yaml", "helm-values/triton/prod.yaml"]
    layers = value_layers("triton", "prod")
    assert list(layers) == [file.path for file in files]
    assert layers["helm-values/triton/base.yaml"]["shm"]["size"]
    assert layers["helm-values/triton/prod.yaml"] == {}
