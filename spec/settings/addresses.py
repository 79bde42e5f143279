"""Types of the addresses in a stack file: hosts, URLs, IPv4 ranges and e-mail addresses.

Like the types of spec/settings/fields.py, each carries the message for a value that does not fit.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from spec.settings.kind import Kind, matching, refuse, text_of

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PATH = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")
_QUERY = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_URL = r"{schemes}://[A-Za-z0-9.-]+(:[0-9]{{1,5}})?"


def is_host(text: str) -> bool:
    """Return whether a text is a DNS host name or an IPv4 address."""
    if not _HOST.fullmatch(text) or len(text) > 253:
        return False
    try:
        return not text.replace(".", "").isdigit() or bool(IPv4Address(text))
    except AddressValueError:
        return False


def is_port(text: str) -> bool:
    """Return whether a text is a port number from 1 to 65535 without leading zeros."""
    return re.fullmatch(r"[1-9][0-9]{0,4}", text) is not None and int(text) <= 65535


_LONGEST_URL = 2048
"""Some browsers, chats and mail programs refuse longer URLs. Each alert carries the URL in its annotations."""


def url(
    what: str, valid: str, *, schemes: tuple[str, ...] = ("http", "https"), path: bool = False, query: bool = False
) -> Kind:
    """Return the type of URLs with a host and an optional port. `path` and `query` allow these parts too.

    User names and passwords in a URL are always refused.
    """

    def check(value: Any) -> str:
        text = text_of(value, valid)
        if len(text) > _LONGEST_URL:
            refuse(f"it has {len(text)} characters; {valid}, of {_LONGEST_URL} at most")
        address = urlsplit(text) if text.isprintable() and text.isascii() and " " not in text else SplitResult(*[""] * 5)
        host, colon, port = address.netloc.partition(":")
        if "@" in address.netloc:
            refuse(f"it has a name or password in it, which would be read by everybody who reads this file; {valid}")
        if address.scheme not in schemes or not text.startswith(f"{address.scheme}://"):
            refuse(f"'{text}' is not {what}; {valid}")
        if not is_host(host):
            refuse(f"'{text}' is not {what}: '{host}' is no name of a host; {valid}")
        if colon and not is_port(port):
            refuse(f"'{text}' is not {what}: '{port}' is no port, which is 1 to 65535; {valid}")
        if not _PATH.fullmatch(address.path) or (address.path and not path):
            refuse(f"'{text}' is not {what}; {valid}")
        if not _QUERY.fullmatch(address.query + address.fragment) or (set("?#") & set(text) and not query):
            refuse(f"'{text}' is not {what}; {valid}")
        return text

    pattern = _URL.format(schemes=f"({'|'.join(schemes)})")
    return Kind(check, valid, {"type": "string", "pattern": f"^{pattern}{'' if path or query else '$'}"})


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _cidr(value: Any) -> IPv4Network:
    valid = "give an IPv4 range like 10.40.0.0/16"
    text = text_of(value, valid)
    if "/" not in text:
        refuse(
            f"'{text}' has no prefix length; {valid}, or that one address as {text}/32"
            if _is_address(text)
            else f"'{text}' is no range of addresses; {valid}"
        )
    try:
        network = IPv4Network(text, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):
        refuse(f"'{text}' is not an IPv4 range; {valid}")
    address, _, length = text.partition("/")
    if length != str(network.prefixlen):  # 255.255.0.0, 016
        refuse(f"'{text}' gives its length as {length}; write {address}/{network.prefixlen}")
    if str(network) != text:
        refuse(f"'{text}' has host bits set; write {network}")
    return network


_NOT_ON_THE_INTERNET = tuple(
    IPv4Network(text)
    for text in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"),
        *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
    )
)


_IN_NO_NETWORK = tuple(
    IPv4Network(text) for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
)


def in_no_network(network: IPv4Network) -> IPv4Network | None:
    """Return the reserved range that contains this range and has no host addresses; None if there is none."""
    return next((reserved for reserved in _IN_NO_NETWORK if network.subnet_of(reserved)), None)


def never_on_the_internet(network: IPv4Network) -> IPv4Network | None:
    """Return the private or reserved range that contains this range; None for an internet range."""
    return next((private for private in _NOT_ON_THE_INTERNET if network.subnet_of(private)), None)


Cidr = Annotated[
    IPv4Network,
    Kind(_cidr, "give an IPv4 range like 10.40.0.0/16", {"type": "string", "pattern": r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$"}),
]
EmailAddress = Annotated[
    str,
    matching(
        rf"(?=.{{6,254}}$)(?=[^@]{{1,64}}@)[A-Za-z0-9_%+'-]+(\.[A-Za-z0-9_%+'-]+)*@{_LABEL}(\.{_LABEL})*\.(?=[^.]*[A-Za-z]){_LABEL}",
        "is not an e-mail address",
        "give one like oncall@example.com",
    ),
]
WebAddress = Annotated[
    str,
    url("an https address", "give one like https://wiki.example.com/triton", schemes=("https",), path=True, query=True),
]
OtlpEndpoint = Annotated[str, url("an OTLP endpoint", "give one like https://otlp.example.com:4318", path=True)]
Endpoint = Annotated[str, url("an S3 endpoint", "give scheme, host and port only, like https://minio.example.com:9000")]
