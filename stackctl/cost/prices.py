"""The dated price tables: one file a region, each price with the day on which it was looked up.

Prices are exact decimal numbers of US dollars, as AWS publishes them: without discounts, taxes and free tiers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.files import rewrite

DIRECTORY = Path(__file__).resolve().parent / "prices"

EC2 = "ec2"
"""The first part of the key of an instance type: `ec2.g5.xlarge`, an hour of Linux on demand."""

KEYS: Mapping[str, str] = {
    "eks.cluster-hour": "an EKS control plane, an hour, in standard support",
    "eks.extended-hour": "an EKS control plane, an hour, in extended support",
    "nat.hour": "a NAT gateway, an hour",
    "public-ipv4.hour": "a public IPv4 address, an hour",
    "endpoint.hour": "an interface endpoint in one zone, an hour",
    "nlb.hour": "a network load balancer, an hour",
    "nlb.lcu-hour": "a load balancer capacity unit (NLCU), an hour",
    "ebs.gp3-gib-month": "a GiB of a gp3 volume, a month, with its baseline of IOPS and throughput",
    "sqs.million-requests": "a million requests to standard queues",
    "kms.key-month": "a customer managed key, a month",
    "logs.ingested-gb": "a GB that CloudWatch Logs takes in",
    "logs.stored-gb-month": "a GB that CloudWatch Logs keeps, a month",
    "alarm.month": "an alarm on one metric, a month",
    "s3.gb-month": "a GB in S3 Standard, a month",
}
"""Every price beside those of instances, and what one unit of it is."""


class PriceError(Failure):
    """A table that is missing, unreadable, or has no such price; the message says what to do."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Price:
    """US dollars for one unit, as of a day."""

    usd: Decimal
    as_of: date


@dataclass(frozen=True)
class PriceTable:
    """The prices of one region by key (`KEYS`, and `ec2.<instance type>`)."""

    region: str
    prices: Mapping[str, Price]

    @property
    def as_of(self) -> date:
        """Return the day of the oldest price."""
        return min(price.as_of for price in self.prices.values())

    def usd(self, key: str) -> Decimal:
        """Return the price of one unit of `key`. Raises PriceError."""
        if key not in self.prices:
            raise PriceError(
                f"{file_of(self.region)} has no price {key}; `python3 -m stackctl cost refresh {self.region}` looks it up"
            )
        return self.prices[key].usd

    def write(self, directory: Path = DIRECTORY) -> Path:
        """Write the table, sorted, and return its file. Raises NotWritten."""
        document = {
            key: {"usd": str(price.usd), "asOf": price.as_of.isoformat()} for key, price in sorted(self.prices.items())
        }
        file = file_of(self.region, directory)
        text = json.dumps({"region": self.region, "prices": document}, indent=1)
        rewrite(file, f"{text}\n".encode())
        return file


def file_of(region: str, directory: Path = DIRECTORY) -> Path:
    """Return the file of a region's table."""
    return directory / f"{region}.json"


def load(region: str, directory: Path = DIRECTORY) -> PriceTable:
    """Return the table of a region. Raises PriceError."""
    file = file_of(region, directory)
    if not file.exists():
        known = sorted(path.stem for path in directory.glob("*.json"))
        raise PriceError(
            f"there is no price table of {region} (there is {', '.join(known) or 'none'}); "
            f"`python3 -m stackctl cost refresh {region}` makes one, with credentials that may call pricing:GetProducts"
        )
    try:
        document = reading.json_file(file)
        prices = {key: _price(entry) for key, entry in document["prices"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, InvalidOperation) as error:
        raise PriceError(f"{file} is not a price table: {error!r}") from None
    if not prices:
        raise PriceError(f"{file} has no prices")
    return PriceTable(region, prices)


def _price(entry: Mapping[str, Any]) -> Price:
    return Price(Decimal(entry["usd"]), date.fromisoformat(entry["asOf"]))
