"""Look up the prices of a region in AWS's Price List API.

A price counts only if exactly one price matches its query, because AWS adds products, and a wrong price is worse than an
old one. Prices that are not found keep their value and date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from spec import reading
from spec.catalog import INSTANCE_TYPES
from stackctl.cost.prices import EC2, KEYS, Price, PriceTable

API_REGION = "us-east-1"
"""The region of the Price List API, for prices of every region."""


@dataclass(frozen=True)
class Question:
    """The query for one price.

    `usage_type` is compared with the product's, without its region prefix. `units` are the accepted units of the
    response, each with the factor to our unit.
    """

    service: str
    usage_type: str
    units: Mapping[str, int]
    filters: Mapping[str, str] = field(default_factory=dict)


_HOURS = {"Hrs": 1, "hours": 1, "Hours": 1, "Hour": 1}
_GB_MONTHS = {"GB-Mo": 1}
_QUESTIONS: Mapping[str, Question] = {
    "eks.cluster-hour": Question("AmazonEKS", "AmazonEKS-Hours:perCluster", _HOURS),
    "eks.extended-hour": Question("AmazonEKS", "AmazonEKS-Hours:extendedSupport", _HOURS),
    "nat.hour": Question("AmazonEC2", "NatGateway-Hours", _HOURS),
    "public-ipv4.hour": Question("AmazonVPC", "PublicIPv4:InUseAddress", _HOURS),
    "endpoint.hour": Question("AmazonVPC", "VpcEndpoint-Hours", _HOURS),
    "nlb.hour": Question("AWSELB", "LoadBalancerUsage", _HOURS, {"operation": "LoadBalancing:Network"}),
    "nlb.lcu-hour": Question("AWSELB", "LCUUsage", {"LCU-Hrs": 1, **_HOURS}, {"operation": "LoadBalancing:Network"}),
    "ebs.gp3-gib-month": Question("AmazonEC2", "EBS:VolumeUsage.gp3", _GB_MONTHS),
    "ebs.gp2-gib-month": Question("AmazonEC2", "EBS:VolumeUsage.gp2", _GB_MONTHS),
    "ebs.standard-gib-month": Question("AmazonEC2", "EBS:VolumeUsage", _GB_MONTHS),
    "ebs.st1-gib-month": Question("AmazonEC2", "EBS:VolumeUsage.st1", _GB_MONTHS),
    "ebs.sc1-gib-month": Question("AmazonEC2", "EBS:VolumeUsage.sc1", _GB_MONTHS),
    "ebs.snapshot-gib-month": Question("AmazonEC2", "EBS:SnapshotUsage", _GB_MONTHS),
    "sqs.million-requests": Question("AWSQueueService", "Requests-Tier1", {"Requests": 1_000_000}),
    "kms.key-month": Question("awskms", "KMS-Keys", {"Keys": 1, "Key-Month": 1, "months": 1}),
    "secrets.secret-month": Question("AWSSecretsManager", "AWSSecretsManager-Secrets", {"Secrets": 1}),
    "logs.ingested-gb": Question("AmazonCloudWatch", "DataProcessing-Bytes", {"GB": 1}),
    "logs.stored-gb-month": Question("AmazonCloudWatch", "TimedStorage-ByteHrs", _GB_MONTHS),
    "alarm.month": Question("AmazonCloudWatch", "CW:AlarmMonitorUsage", {"Alarms": 1}),
    "s3.gb-month": Question("AmazonS3", "TimedStorage-ByteHrs", _GB_MONTHS),
    "s3.million-reads": Question("AmazonS3", "Requests-Tier2", {"Requests": 1_000_000}),
}
BY_HAND = frozenset(key for key in KEYS if key.startswith(("fsx.", "insights.")))
"""Keys with manual prices.

FSx prices come from https://aws.amazon.com/fsx/lustre/pricing/, because no single usage type identifies each throughput.
The Container Insights price comes from secondary sources about https://aws.amazon.com/cloudwatch/pricing/. That page was
not read, and its usage type is unknown.
"""
assert _QUESTIONS.keys() | BY_HAND == KEYS.keys()  # both name the same prices

_REGION_PREFIX = re.compile(r"^[A-Z]{2,4}\d?-")
"""`USW2-NatGateway-Hours`; us-east-1 has no prefix."""
_LINUX_ON_DEMAND = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "licenseModel": "No License required",
    "marketoption": "OnDemand",
}


@dataclass(frozen=True)
class Refreshed:
    """The new table and its differences.

    `changed`: the price before, by key (None: there was no price). `missing`: the reason why a price stayed, by key.
    """

    table: PriceTable
    changed: Mapping[str, Decimal | None]
    missing: Mapping[str, str]


class _NotOnePrice(Exception):
    """The response to a query does not have exactly one price."""


def look_up(pricing: Any, region: str, old: Mapping[str, Price], today: date) -> Refreshed:
    """Return the prices of a region from the Price List API.

    `pricing` is a boto3 client in `API_REGION`.
    """
    prices, missing = dict(old), {}
    changed: dict[str, Decimal | None] = {}
    for key, question in _all_questions().items():
        try:
            usd = _price(pricing, region, question)
        except _NotOnePrice as error:
            missing[key] = str(error)
            continue
        before = old[key].usd if key in old else None
        if before != usd:
            changed[key] = before
        prices[key] = Price(usd, today)
    return Refreshed(PriceTable(region, prices), changed, missing)


def _all_questions() -> dict[str, Question]:
    instances = {
        f"{EC2}.{name}": Question("AmazonEC2", f"BoxUsage:{name}", _HOURS, {**_LINUX_ON_DEMAND, "instanceType": name})
        for name in INSTANCE_TYPES
    }
    return {**_QUESTIONS, **instances}


def _price(pricing: Any, region: str, question: Question) -> Decimal:
    found = {
        price
        for product in _products(pricing, region, question)
        if _REGION_PREFIX.sub("", product["product"]["attributes"].get("usagetype", "")) == question.usage_type
        for price in _unit_prices(product, question)
    }
    if len(found) != 1:
        said = ", ".join(str(price) for price in sorted(found)) or "none"
        raise _NotOnePrice(f"{question.service} has {len(found)} prices of {question.usage_type} in {region}: {said}")
    return found.pop()


def _products(pricing: Any, region: str, question: Question) -> Iterator[dict[str, Any]]:
    wanted = {"regionCode": region, **question.filters}
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
    if not question.filters:
        # The region prefix is unknown, and a whole service has thousands of products.
        filters.append({"Type": "CONTAINS", "Field": "usagetype", "Value": question.usage_type})
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=question.service, Filters=filters, FormatVersion="aws_v1", PaginationConfig={"PageSize": 100}
    )
    for page in pages:
        for text in page["PriceList"]:
            yield reading.json_object(text)


def _unit_prices(product: Mapping[str, Any], question: Question) -> Iterable[Decimal]:
    """Return the on-demand prices of the first units that are not free."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        tiers = sorted(term["priceDimensions"].values(), key=lambda tier: Decimal(tier["beginRange"]))
        for tier in tiers:
            if tier["unit"] not in question.units:
                raise _NotOnePrice(
                    f"{question.service} gives {question.usage_type} in {tier['unit']!r}, which is not known here"
                )
            usd = Decimal(tier["pricePerUnit"].get("USD", "0")) * question.units[tier["unit"]]
            if usd > 0:
                yield usd.normalize() + 0
                break
