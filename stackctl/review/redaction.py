"""Remove secrets from text, because text in a pull request is public for good.

The library detect-secrets knows the forms of keys and tokens. spec/token_forms.py and this module add the kinds that it
knows only in part or not at all, each with the source of its form. Hiding too much is a nuisance; hiding too little is a
leak. In doubt, a text is hidden.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

from spec.token_forms import TOKEN_FORMS

SECRET = "(secret)"  # noqa: S105 - what is told in the place of one

_NOT_ASKED = frozenset(
    {"IPPublicDetector", "CloudantDetector", "IbmCloudIamDetector", "IbmCosHmacDetector", "SoftlayerDetector"}
)
"""Excluded detectors of the library.

They hide text that a reviewer needs, or their patterns take minutes for a line of blanks.
"""

_OWN = (
    # User and password in a URL, except git@: https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1. A password may
    # contain an @, or a slash; a port is followed by a slash.
    r"(?<=://)(?!git@)[^/\s?#\"'<>]+(?=@)|(?<=://)[^\s:/@]*:(?!\d+/)[^\s@\"'<>]+(?=@)",
    # https://www.rfc-editor.org/rfc/rfc7519, with its signature, which the library does not remove
    r"\beyJ[\w-]{10,}\.[\w.-]*",
    # Signatures of presigned URLs: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
    r"(?<=X-Amz-Signature=)\w+|(?i:(?<=X-Goog-Signature=)\w+)|(?<=X-Amz-Credential=)[^&\s\"']+|(?<=[?&]sig=)[^&\s\"']+"
    r"|(?<=[?&]Signature=)[^&\s\"']+",
    # After the patterns above: their text may contain a token, and without this order the rest of it would stay.
    *(form.likely for form in TOKEN_FORMS),
    # https://docs.discord.com/developers/resources/webhook
    r"(?<=/api/webhooks/)\d+/[\w-]+",
    # https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook
    r"(?<=webhook\.office\.com/)\S+|(?<=outlook\.office\.com/)webhook/\S+",
    # Others with a unique prefix: https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml
    r"\b(?:shp(?:at|ca|pa|ss)_|lin_api_|sntry[su]_|figd_|ntn_|r8_|gsk_|pplx-|lsv2_[a-z]{2}_|sbp_|pscale_[a-z]+_|bkua_|CCIPAT_"
    r"|rubygems_|nfp_|sq[apu]_|duffel_(?:live|test)_|fo1_|fm[12]_|dp\.[a-z]{2,5}\.|PMAK-|NRAK-|NRJS-|HRKU-|CFPAT-|xai-"
    r"|tskey-[a-z]+-|EZ[AT]K|AT[AC]TT3x|AGE-SECRET-KEY-1|ABSK|AKCp|LTAI|AKID|EAA[A-Z]|secret_|bedrock-api-key-)[\w+/=-]{16,}",
    r"\bkey-[0-9a-f]{32}\b|\bpat\w{14}\.[0-9a-f]{32,}|\b\w{3}\dQ~[\w~.-]{20,}|\b\w{10,}\.atlasv1\.[\w=-]{20,}|\bsl\.[\w-]{60,}"
    r"|\bt1\.[\w-]+=*\.[\w-]{60,}",
    # A short word, then random letters of both cases and digits. Names do not look like this.
    r"\b[a-z][a-z0-9]{1,8}[_-](?:[a-z]{1,10}[_-]){0,2}(?=[A-Za-z0-9]{0,23}\d)(?=[A-Za-z0-9]{0,23}[A-Z])"
    r"(?=[A-Za-z0-9]{0,23}[a-z])[A-Za-z0-9]{24,}",
    # Tokens without such a word: in hex, with a UUID, or of another form.
    r"\b(?:sk|e2b|live|test)_[0-9a-f]{32,}|\b(?:access-(?:production|development|sandbox)|pat-(?:na|eu)\d)-[0-9a-f-]{32,}"
    r"|\bv1\.0-[0-9a-f]{24}-[0-9a-f]{100,}|\bst(?:\.[0-9a-f]{24,}){3}|\b\d/\d{10,}:[0-9a-f]{32}|\btoken\s+[0-9a-f]{40}\b"
    r"|\b0\.[0-9a-f-]{36}\.\w{20,}:[\w+/]+=*|\b(?:prod|dev):[a-z-]+-\d+\|[\w+/=]{20,}|\bsq0(?:atp|csp|idp)-[\w-]{20,}"
    r"|\b00D\w{12,15}![\w.]{40,}|\bcmVmdGtu[\w+/=]{40,}|\bdG9r[\w+/]{40,}=*|\bcio[A-Za-z0-9]{32}\b|\bATBB\w{28,}"
    r"|\bre_\w{8}_\w{20,}|\bSSWS\s+[\w-]{20,}|(?<=hooks\.zapier\.com/hooks/catch/)[\w/]+|(?<=/with/key/)[\w-]+",
    # Bots of Telegram and Discord, keys of NuGet and Adyen, a login to ECR or any other base64 of JSON
    # (https://core.telegram.org/bots/features, https://discord.com/developers/docs/reference#authentication).
    r"(?<!\d)\d{8,10}:[\w-]{35}(?![\w-])|\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}\b|\boy2[a-z0-9]{43}\b|\bAQE[\w+/=-]{50,}"
    r"|\beyJ[\w+/=-]{60,}",
    # Password hashes: https://man.archlinux.org/man/crypt.5
    r"\$(?:apr1|1|2[abxy]?|5|6|7|y|gy|argon2\w*|scrypt|pbkdf2[\w-]*)\$[\w./$+=,-]{16,}",
    # https://tartarus.org/~simon/putty-snapshots/htmldoc/AppendixC.html
    r"(?<=Private-Lines: )\d+\s+(?:[\w+/=]+\s*)+",
)

_NAMES = (
    r"pass(?:wor[dt]s?|wd|phrase|code)|(?<=[_-])(?:pass|pat)(?![a-z])|pwd|psk"
    r"|secret(?:[ _-]?key)?|(?<!account)(?<!page)(?<!next)token|credentials?|bearer|cookie"
    r"|(?:api|access|private)[ _-]?key|(?<=[\"'])auth(?=[\"'])|connection[_-]?string|auth[_-]?token"
    r"|(?:auth|service|account|client|db|database|priv|signing|license|ssh|shared|storage|master|session|hmac|deploy"
    r"|routing|integration|pagerduty|app|application|encryption|fernet)[_-]?key(?:[_-]data)?|secret_key_base|art-api"
)
_PLAIN_WORDS = (
    r"true|false|null|none|nil|undefined|is|are|was|were|has|have|had|must|may|might|can|cannot|could|should|would|will|does|do"
    r"|did|not|no|in|on|of|for|to|from|at|by|with|and|or|the|a|an|this|that|it|its|missing|required|invalid|expected|unknown"
    r"|empty|expired|denied|refused|needs|authentication|authorization|auth|scheme|header|tokens?|key|\(secret\)"
)
"""Words that follow a secret's name in a sentence and are not secrets."""
_INSIDE = r"(?:[^\s\"'`,;)}\]]|[\"'`,;)}\]](?=[^\s\"'`,;)}\]])(?![\w.-]*[=:]))"
"""A character of a value without quotes.

A quote, comma, semicolon or bracket ends the value, unless more text follows that is not a `name=` or `name:`.
"""
_QUOTED = r"\"(?:[^\"\\]|\\.)+\"(?:\s*[=-]>\s*\"(?:[^\"\\]|\\.)*\")?|'[^']+'|\\+[\"'].*?(?:\\+[\"']|$)|\[[^\]]*\]"
"""A quoted value or a list.

In a diff it includes the value after `=>` or `->`. A value may have escaped quotes, as in JSON within JSON.
"""
_GIVEN = re.compile(
    # A block of YAML.
    rf"((?<![\w.-])[\w.-]*?(?:{_NAMES})[\"']?:[ \t]*[|>][+-]?[ \t]*\n)((?:[ \t]+\S.*(?:\n|$))+)"
    # A mapping in braces.
    rf"|((?<![\w.-])[\w.-]*?(?:{_NAMES})s?[\"']?\s*[:=]\s*)(\{{[^{{}}]+\}})"
    # A whole header, and a whole element of XML.
    rf"|(\bcookie:[ \t]*)(\S.*)$|(<[\w:.-]*(?:{_NAMES})>)([^<]+)(?=</)|"
    # All words of a line of YAML.
    rf"(^[ \t]*(?:- )?[\w.-]*pass(?:word|wd|phrase):[ \t]+)(?!(?:{_PLAIN_WORDS})(?!\S))([^\s\"'].*)$"
    # `DB_PASSWORD=…`, `password: …`, `"token": "…"`, `--api-key …`. In an ARN or URN the name is a kind of resource.
    rf"|((?<![\w:./-])[\w.-]*?(?:{_NAMES})[\\\"'\])]*(?:\s*(?:=>|:=|=|:(?!:)|%3[AD])\s*|(?<=\w)\s+is\s+(?=[\"'])))"
    rf"(?!(?:{_PLAIN_WORDS})(?![\w.+/=$!@#%^&*-]))({_QUOTED}|{_INSIDE}+)"
    rf"|((?<![\w-])--?[\w-]*(?:{_NAMES})\s+)([^\s\"'`,;-][^\s\"'`,;]*)"
    rf"|(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?)([^\s\"',;]+)"
    # `:password => …`, command lines and .netrc.
    rf"|(:(?:{_NAMES})\s*=>\s*)([^\s,]+)|(\b(?:sshpass|mysql\w*|docker\s+login)\b.*?\s-p\s?|\bbindpw\s+)(\S+)|(\blogin\s+\S+\s+password\s+)(\S+)"
    # `The password has been set to hunter2`.
    r"|(\b(?:pass(?:word|wd|phrase|code)|secret|token|(?:api|access)[ _-]?key)\s+(?:(?:is|was|has been|will be)\s+)?"
    rf"(?:set|changed|reset|rotated)\s+to:?\s+)(?!(?:{_PLAIN_WORDS}|be|expire)(?!\S))(\S+)"
    # `Password is hunter2`, `password "hunter2" is wrong`, `curl -u me:hunter2`.
    rf"|(\bpass(?:word|wd|phrase)\s+(?:is|was):?\s+)(?!(?:{_PLAIN_WORDS}|too|wrong|weak|set|given|used)(?!\S))(\S+)"
    r"|(\bpass(?:word|wd|phrase)\s+)([\"'][^\"']+[\"'])|(\s(?:-u|--user)[ =])(\w+:\S+)"
    rf"|(\b(?:bearer|basic|geniekey)\s+)(?!(?:{_PLAIN_WORDS})(?![\w.+/=-]))([\w.~+/=-]{{6,}})",
    re.IGNORECASE | re.MULTILINE,
)
_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase|code)|(?<![a-z])pwd|(?<!existing)(?<!pull)secret(?!s?[_-]?(?:name|ref|manager|arn|store|key_?ref))|credential"
    r"|api[_-]?key|access[_-]?key|private[_-]?key|(?:auth|service|client|signing|license|ssh|shared|storage)[_-]?key(?!s?_?id)"
    r"|(?:auth|bearer|access|refresh|session|id|api|hub|bot|deploy)[_-]?token|(?:^|[._\-\[\"])token(?=$|[\"\].])|[_-]token$"
    r"|bearer|connection_?string|user_?data|kubeconfig|dockerconfig|(?:^|[._\-\[\"])auth$|cookie|webhook_?url",
    re.IGNORECASE,
)
_TAIL = re.compile(r"[\w+/=-]*")
_OWN_PATTERN = re.compile("|".join(_OWN), re.DOTALL)

T = TypeVar("T")


@lru_cache(maxsize=10_000)
def redacted(text: str) -> str:
    """Return the text with every secret replaced by SECRET, and without NULs.

    NULs hide secrets that were UTF-16.
    """
    text = text.replace("\0", "")
    text = _OWN_PATTERN.sub(SECRET, text)
    for pattern in _patterns_of_the_library():
        text = _without(pattern, text)
    return _GIVEN.sub(_value_hidden, text)


def has_secret(text: str) -> bool:
    """Return whether the text contains a secret."""
    return redacted(text) != text.replace("\0", "")


def names_a_secret(name: str) -> bool:
    """Return whether a value with this name or path is always a secret."""
    return _SECRET_NAME.search(name) is not None


def everywhere(value: T) -> T:
    """Return data (dataclasses, mappings, tuples) with secrets in all texts redacted, including names and keys."""
    made: Any = value
    if isinstance(value, str):
        made = redacted(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: everywhere(getattr(value, field.name)) for field in dataclasses.fields(value)}
        made = dataclasses.replace(value, **changed)
    elif isinstance(value, Mapping):
        made = {everywhere(key): everywhere(item) for key, item in value.items()}
    elif isinstance(value, tuple):
        made = tuple(everywhere(item) for item in value)
    return made


def _value_hidden(found: re.Match[str]) -> str:
    name, value = next((found[group], found[group + 1]) for group in range(1, _GIVEN.groups, 2) if found[group] is not None)
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{quote}{SECRET}{quote}"


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Replace each match of the pattern, up to the end of its word.

    The library's patterns match only the minimum length of a kind.
    """
    parts, done = [], 0
    for found in pattern.finditer(text):
        start = found.start()
        inside = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
        if start < done or inside or found.end() == start:
            continue
        tail = _TAIL.match(text, found.end())
        parts += [text[done:start], SECRET]
        done = tail.end() if tail else found.end()
    return "".join([*parts, text[done:]])


@cache
def _patterns_of_the_library() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of the used detectors, in the same order in each run."""
    detectors: list[type] = sorted(get_mapping_from_secret_type_to_class().values(), key=lambda one: str(one.__name__))
    wanted = [one for one in detectors if issubclass(one, RegexBasedDetector) and one.__name__ not in _NOT_ASKED]
    return tuple(pattern for one in wanted for pattern in one().denylist)
