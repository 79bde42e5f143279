"""Read and write the price tables: one file a region, with look-up dates.

Prices are exact decimal numbers of US dollars, as AWS publishes them: without discounts, taxes and free tiers. Without a
price an amount is `UNKNOWN`, and so is every sum with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from spec import reading
from spec.catalog import INSTANCE_TYPES, partition_of
from spec.failure import NOT_TRIED, Failure
from spec.files import rewrite
from spec.reading import Unreadable
from spec.wording import did_you_mean

DIRECTORY = Path(__file__).resolve().parent / "prices"

EC2 = "ec2"
"""First part of an instance type's key: `ec2.g5.xlarge`, an hour of Linux on demand."""

KEYS: Mapping[str, str] = {
    "eks.cluster-hour": "an EKS control plane, an hour, in standard support",
    "eks.extended-hour": "an EKS control plane, an hour, in extended support",
    "nat.hour": "a NAT gateway, an hour",
    "public-ipv4.hour": "a public IPv4 address, an hour",
    "endpoint.hour": "an interface endpoint in one zone, an hour",
    "nlb.hour": "a network load balancer, an hour",
    "nlb.lcu-hour": "a load balancer capacity unit (NLCU), an hour",
    "ebs.gp3-gib-month": "a GiB of a gp3 volume, a month, with its baseline of IOPS and throughput",
    "ebs.gp2-gib-month": "a GiB of a gp2 volume, a month",
    "ebs.standard-gib-month": "a GiB of a magnetic volume, a month",
    "ebs.st1-gib-month": "a GiB of an st1 volume, a month",
    "ebs.sc1-gib-month": "a GiB of an sc1 volume, a month",
    "ebs.snapshot-gib-month": "a GiB of a snapshot, a month",
    "fsx.lustre-125-gib-month": "a GiB of FSx for Lustre, persistent on SSD, with 125 MB/s per TiB, a month",
    "fsx.lustre-250-gib-month": "the same, with 250 MB/s per TiB",
    "fsx.lustre-500-gib-month": "the same, with 500 MB/s per TiB",
    "fsx.lustre-1000-gib-month": "the same, with 1000 MB/s per TiB",
    "sqs.million-requests": "a million requests to standard queues",
    "kms.key-month": "a customer managed key, a month",
    "secrets.secret-month": "a secret of Secrets Manager, a month",
    "logs.ingested-gb": "a GB that CloudWatch Logs takes in",
    "logs.stored-gb-month": "a GB that CloudWatch Logs keeps, a month",
    "insights.million-observations": "a million observations of Container Insights, of the first 1,000 million a month",
    "alarm.month": "an alarm on one metric, a month",
    "s3.gb-month": "a GB in S3 Standard, a month",
    "s3.million-reads": "a million GET requests to S3 Standard",
}
"""Every price except instance prices, each with its unit."""

_ENTRY = {"usd": str, "asOf": str}
_FORM = {"region": str, "prices": {str: _ENTRY}}
_USD = re.compile(r"[0-9]{1,9}(\.[0-9]{1,20})?(E-[0-9]{1,2})?")
"""The form in which Decimal writes amounts, below a thousand million."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AGED = timedelta(days=180)
_AHEAD = timedelta(days=366)
"""Accepted future dates: prices stay usable if the clock is months behind."""
_INSTANCE = re.compile(rf"{EC2}\.[a-z][a-z0-9-]*\.(nano|micro|small|medium|large|[0-9]*xlarge|metal(-[0-9]+xl)?)", re.ASCII)
"""A pattern, because the catalogue lacks types.

https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
"""
HOURS = Decimal(730)
"""Hours of a month in AWS's own calculator: 8,760 / 12."""
UNKNOWN = Decimal("NaN")
"""An amount without a known price. A sum with it is unknown too."""


class PriceError(Failure):
    """A price table is unreadable or lacks a price. The message has the remedy."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Price:
    """US dollars for one unit at a date."""

    usd: Decimal
    as_of: date


@dataclass(frozen=True)
class PriceTable:
    """The prices of one region by key (`KEYS`, and `ec2.<instance type>`)."""

    region: str
    prices: Mapping[str, Price]

    @property
    def as_of(self) -> date | None:
        """Return the date of the oldest price; None without a price."""
        return min((price.as_of for price in self.prices.values()), default=None)

    @property
    def source(self) -> str:
        """Return the source of the prices, in words."""
        return f"list prices of {self.region}" + (f" as of {self.as_of}" if self.as_of else ", of which there is no table")

    def aged(self, today: date) -> list[str]:
        """Return a warning if the oldest price is more than 180 days old."""
        if self.as_of is None or today - self.as_of <= _AGED:
            return []
        refresh = f"`python3 -m stackctl cost refresh {self.region}` updates them"
        return [f"prices are {(today - self.as_of).days} days old (as of {self.as_of}): {refresh}"]

    def missing(self, what: Sequence[str]) -> str:
        """Return the sentence that these prices are unknown, with the remedy."""
        if not in_dollars(self.region):
            return f"AWS sells {self.region} in yuan, and costs are told in US dollars only: they are not known"
        refresh = f"`python3 -m stackctl cost refresh {self.region}`"
        rights = "with credentials that may call pricing:GetProducts"
        if not self.prices:
            return f"there is no price table of {self.region}: {refresh} makes one, {rights}"
        return f"unknown, as {self.region} has no price of it: {'; '.join(what)}. {refresh} looks prices up, {rights}"

    def usd(self, key: str) -> Decimal:
        """Return the price of one unit of `key`, or UNKNOWN."""
        return self.prices[key].usd if key in self.prices else UNKNOWN

    def including(self, given: Mapping[str, float], today: date) -> PriceTable:
        """Return the table with a stack file's own prices, which override the table's."""
        named = {key: Price(Decimal(str(usd)), self.as_of or today) for key, usd in given.items()}
        return PriceTable(self.region, {**self.prices, **named})

    def write(self, directory: Path = DIRECTORY) -> Path:
        """Write the table, sorted, and return its file. Raises NotWritten."""
        document = {
            key: {"usd": str(price.usd), "asOf": price.as_of.isoformat()} for key, price in sorted(self.prices.items())
        }
        file = file_of(self.region, directory)
        text = json.dumps({"region": self.region, "prices": document}, indent=1)
        rewrite(file, f"{text}\n".encode())
        return file


def in_dollars(region: str) -> bool:
    """Return whether AWS has US dollar prices for a region.

    Prices in China are in yuan (https://www.amazonaws.cn/en/ec2/pricing/).
    """
    return partition_of(region) != "aws-cn"


def product(units: Decimal, usd: Decimal) -> Decimal:
    """Return the cost of a number of units; 0 for no units at any price."""
    return units * usd if units else Decimal(0)


def file_of(region: str, directory: Path = DIRECTORY) -> Path:
    """Return the file of a region's table."""
    return directory / f"{region}.json"


def load(region: str, directory: Path = DIRECTORY, today: date | None = None) -> PriceTable:
    """Return the table of a region, without prices if it has no file. Raises PriceError."""
    latest = (today or date.today()) + _AHEAD
    file = file_of(region, directory)
    if not file.exists():
        return PriceTable(region, {})
    try:
        document = reading.checked(reading.json_file(file), _FORM, "the table")
        if document.get("region") != region or "prices" not in document:
            raise Unreadable(f"it is of the region {document.get('region')}, or has no prices")
        if unknown := _unknown_keys(document):
            raise Unreadable("; ".join(unknown))
        prices = {key: _price(key, entry, latest) for key, entry in (document["prices"] or {}).items()}
    except Unreadable as error:
        raise PriceError(
            f"{file} is not a price table: {error.problem}; restore it, or remove it and run "
            f"`python3 -m stackctl cost refresh {region}`"
        ) from None
    return PriceTable(region, prices)


def _unknown_keys(document: Mapping[str, Any]) -> list[str]:
    """Return an error for each unknown key, because its price would not be used."""
    prices = document["prices"] or {}
    found = [f"{key}: unknown key; there are {' and '.join(_FORM)}" for key in document if key not in _FORM]
    for name, entry in prices.items():
        if name not in KEYS and not _INSTANCE.fullmatch(name):
            near = did_you_mean(name, (*KEYS, *(f"{EC2}.{one}" for one in INSTANCE_TYPES)))
            found.append(f"prices.{name}: no price is asked for by this name; {near}remove it".rstrip())
        found += [f"prices.{name}.{key}: unknown key; there are usd and asOf" for key in entry if key not in _ENTRY]
    return found


def _price(key: str, entry: Mapping[str, Any], latest: date) -> Price:
    usd, day = entry.get("usd") or "", entry.get("asOf") or ""
    if not _USD.fullmatch(usd):
        raise Unreadable(f'{key}: usd is {usd!r}, where digits in quotes are expected, like "0.526"')
    try:
        as_of = date.fromisoformat(day if _DAY.fullmatch(day) else "")
    except ValueError:
        raise Unreadable(f"{key}: asOf is {day!r}, where a day is expected, like 2026-01-31") from None
    if as_of > latest:
        raise Unreadable(f"{key}: asOf is {day!r}, more than a year ahead; give the day on which the price was looked up")
    return Price(Decimal(usd), as_of)
