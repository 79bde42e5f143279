"""Name the environment variables of a person that a twin's processes and shells must not see."""

from collections.abc import Container, Mapping

_FOREIGN_PREFIXES = ("AWS_", "KUBE", "HELM_", "PULUMI_")


def foreign(environ: Mapping[str, str], keep: Container[str] = ()) -> list[str]:
    """Return the sorted variables that could name a person's own account or cluster, except those in `keep`."""
    return sorted(name for name in environ if name.startswith(_FOREIGN_PREFIXES) and name not in keep)
