"""Tell what of a person's environment a twin's processes and shells must not see."""

from collections.abc import Container, Mapping

_FOREIGN_PREFIXES = ("AWS_", "KUBE", "HELM_", "PULUMI_")


def foreign(environ: Mapping[str, str], keep: Container[str] = ()) -> list[str]:
    """Return the variables that could name a person's own account or cluster, but for those in `keep`; sorted."""
    return sorted(name for name in environ if name.startswith(_FOREIGN_PREFIXES) and name not in keep)
