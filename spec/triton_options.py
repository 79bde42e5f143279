"""Check a command line of `tritonserver` for a given version before a pod runs it.

The table is `spec.triton_flags`. Options that the server silently ignores are problems here too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spec.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_METRICS_PORT
from spec.triton_flags import BACKEND_SETTINGS, CONFIG_FIELDS, FLAGS, METRICS_SETTINGS, NO_FLAGS, Flag
from spec.wording import did_you_mean

__all__ = [
    "BACKEND_SETTINGS",
    "CONFIG_FIELDS",
    "FLAGS",
    "METRICS_SETTINGS",
    "Flag",
    "check_arguments",
    "newer_than",
]

_PORTS = {"--http-port": TRITON_HTTP_PORT, "--grpc-port": TRITON_GRPC_PORT, "--metrics-port": TRITON_METRICS_PORT}


@dataclass(frozen=True)
class _Given:
    """A known flag of the command line, and its value (None: it has none)."""

    name: str
    flag: Flag
    value: str | None


def check_arguments(arguments: Sequence[str], server_version: str) -> list[str]:
    """Return all problems of the arguments of a `tritonserver` of this version (like `2.71.0`), one sentence each.

    Arguments are `--flag`, `--flag=value` or `--flag value`, without the program's name. A sentence begins with the flag.
    """
    given: list[_Given] = []
    problems: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        flag = FLAGS.get(name)
        if flag is None:
            problems.append(_unknown(word, name))
            if not equals and words and not words[0].startswith("--"):
                words.pop(0)  # the value of the unknown flag
        elif flag.value is None:
            if equals:
                problems.append(f"{name}: takes no value; write {name} alone")
            given.append(_Given(name, flag, None))
        elif equals or (words and not words[0].startswith("--")):
            given.append(_Given(name, flag, value if equals else words.pop(0)))
        else:
            problems.append(f"{name}: needs a value; write {name}=<value>")
    for one in given:
        problems.extend(_problems_of(one, server_version))
    problems.extend(_repetitions(given))
    problems.extend(_contradictions(given))
    return problems


def newer_than(since: str, server_version: str) -> bool:
    """Return whether a feature of server `since` is missing in server `server_version`."""
    return _version(since) > _version(server_version)


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _unknown(word: str, name: str) -> str:
    if not word.startswith("--"):
        return f"{word}: is not a flag; arguments are --flag=value"
    if name in NO_FLAGS:
        return f"{name}: tritonserver has no such flag; {NO_FLAGS[name]}"
    near = did_you_mean(name, FLAGS)
    return f"{name}: tritonserver has no such flag and would not start; {near or 'see tritonserver --help'}".rstrip()


def _problems_of(one: _Given, server_version: str) -> Iterator[str]:
    if one.flag.instead is not None:
        yield f"{one.name}: is deprecated; {one.flag.instead}"
        return
    if newer_than(one.flag.since, server_version):
        yield f"{one.name}: came with server {one.flag.since}, {server_version} would not start; leave it out"
    if one.flag.value is None or one.value is None:
        return
    wrong = one.flag.value(one.value)
    if wrong:
        yield f"{one.name}: {wrong}"
    elif one.name == "--metrics-config":
        setting = one.value.partition("=")[0]
        since = METRICS_SETTINGS[setting]
        if newer_than(since, server_version):
            yield f"{one.name}: {setting} came with server {since}, {server_version} would ignore it; leave it out"


def _repetitions(given: Sequence[_Given]) -> Iterator[str]:
    """Yield a sentence for each duplicate flag, of which the server keeps only one."""
    seen: set[str] = set()
    said: set[str] = set()
    for one in given:
        # A repeatable flag is a duplicate only with the same setting. A value without a setting, as of --load-model, counts
        # as one.
        key = f"{one.name}={(one.value or '').partition('=')[0]}" if one.flag.repeatable else one.name
        if key in seen and key not in said:
            said.add(key)
            yield f"{key}: is there twice, one of them would be ignored; give it once"
        seen.add(key)


def _contradictions(given: Sequence[_Given]) -> Iterator[str]:
    values = {one.name: one.value for one in given}
    for name, flag in dict.fromkeys((one.name, one.flag) for one in given):
        if flag.needs is not None and (values.get(flag.needs[0]) or "").lower() != flag.needs[1]:
            yield f"{name}: has no effect without {flag.needs[0]}={flag.needs[1]}; add it, or leave this one out"
    models = [one.value for one in given if one.name == "--load-model"]
    if "*" in models and len(models) > 1:
        yield "--load-model: * is for all models and does not go with the name of one; give either"
    taken: dict[str, str] = {}
    for name, default in _PORTS.items():
        port = values.get(name) or str(default)
        if port in taken:
            yield f"{name}: {port} is the port of {taken[port]}; give each its own"
        taken[port] = name
