"""The price tables and their update, from answers in the Price List API's form."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from spec.catalog import INSTANCE_TYPES
from stackctl.cost import prices, refresh
from stackctl.cost.prices import KEYS, Price, PriceError
from stackctl.cost.refresh import BY_HAND, Question

TODAY = date(2026, 11, 21)


def test_the_shipped_table_has_every_price_that_is_asked_for() -> None:
    table = prices.load("us-west-2")
    assert table.prices.keys() >= KEYS.keys()
    assert all(price.usd > 0 for price in table.prices.values())


def table_of(**entry: object) -> str:
    return json.dumps({"region": "xx", "prices": {"nat.hour": {"usd": "0.1", "asOf": "2026-01-01", **entry}}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is a list, where an object is expected"),
        ("{", "not valid JSON: "),
        ('{"region": "xx"}', "it is of the region xx, or has no prices"),
        ('{"prices": {}}', "it is of the region None, or has no prices"),
        ('{"region": "yy", "prices": {}}', "it is of the region yy, or has no prices"),
        ('{"region": "xx", "prices": []}', "the table.prices is a list, where an object is expected"),
        ('{"region": "xx", "prices": {"nat.hour": "1"}}', "the table.prices.nat.hour is text, where an object is expected"),
        *(
            (table_of(usd=usd), f"the table.prices.nat.hour.usd is {kind}, where text is expected")
            for usd, kind in ((0.1, "a number"), (True, "true or false"), ([0, [1], 0], "a list"))
        ),
        *(
            (table_of(usd=usd), f"nat.hour: usd is {usd or ''!r}, where digits in quotes are expected")
            for usd in ("many", "NaN", "Infinity", "-1", "1_0", " 1", "\u0661", "1e50", "", None)
        ),
        *(
            (table_of(asOf=day), f"nat.hour: asOf is {day or ''!r}, where a day is expected, like 2026-01-31")
            for day in ("2026-02-31", "2026-W01-1", "20260101", None)
        ),
        (table_of(currency="EUR"), "prices.nat.hour.currency: unknown key; there are usd and asOf"),
        ('{"region": "xx", "prices": {}, "discount": "0.1"}', "discount: unknown key; there are region and prices"),
        (table_of(asOf="2999-01-01"), "nat.hour: asOf is '2999-01-01', more than a year ahead; give the day on which"),
    ],
)
def test_a_file_that_is_no_price_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "xx.json").write_text(text, encoding="utf-8")
    with pytest.raises(PriceError) as told:
        prices.load("xx", tmp_path)
    assert f"xx.json is not a price table: {said}" in str(told.value)
    assert str(told.value).endswith("; restore it, or remove it and run `python3 -m stackctl cost refresh xx`")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("nat.our", "prices.nat.our: no price is asked for by this name; did you mean 'nat.hour'? remove it;"),
        (
            "ec2.g5.xlarg",
            "prices.ec2.g5.xlarg: no price is asked for by this name; did you mean 'ec2.g5.xlarge'? remove it;",
        ),
        ("EC2.g5.xlarge", "prices.EC2.g5.xlarge: no price is asked for by this name; "),
    ],
)
def test_a_price_that_nothing_asks_for_is_refused_with_the_name_that_was_meant(tmp_path: Path, key: str, said: str) -> None:
    table = {"region": "xx", "prices": {key: {"usd": "0.1", "asOf": "2026-01-01"}}}
    (tmp_path / "xx.json").write_text(json.dumps(table))
    with pytest.raises(PriceError) as told:
        prices.load("xx", tmp_path)
    assert f"xx.json is not a price table: {said}" in str(told.value)


@pytest.mark.parametrize("name", [*INSTANCE_TYPES, "p9-b900.96xlarge", "u7in-32tb.224xlarge", "g9.metal-48xl"])
def test_an_instance_type_has_a_price_whether_or_not_the_catalogue_knows_it(tmp_path: Path, name: str) -> None:
    table = prices.PriceTable("xx", {f"ec2.{name}": Price(Decimal("1.5"), TODAY)})
    table.write(tmp_path)
    assert prices.load("xx", tmp_path) == table


@pytest.mark.parametrize(
    ("today", "notes"),
    [
        (date(2026, 6, 30), []),
        (
            date(2026, 7, 1),
            ["prices are 181 days old (as of 2026-01-01): `python3 -m stackctl cost refresh xx` updates them"],
        ),
    ],
)
def test_prices_of_more_than_180_days_are_a_warning(today: date, notes: list[str]) -> None:
    prices_ = {"nat.hour": Price(Decimal(1), date(2026, 1, 1)), "eks.hour": Price(Decimal(1), TODAY)}
    assert prices.PriceTable("xx", prices_).aged(today) == notes


@pytest.mark.parametrize(("today", "taken"), [(TODAY, True), (date(2025, 12, 1), True), (date(2025, 11, 19), False)])
def test_a_clock_that_is_months_behind_takes_no_price_away(tmp_path: Path, today: date, taken: bool) -> None:
    (tmp_path / "xx.json").write_text(table_of(asOf=TODAY.isoformat()))
    if taken:
        assert prices.load("xx", tmp_path, today).as_of == TODAY
    else:
        with pytest.raises(PriceError, match="more than a year ahead"):
            prices.load("xx", tmp_path, today)


def test_a_region_without_a_table_has_no_prices_and_says_so() -> None:
    table = prices.load("us-gov-west-1")
    assert (table.usd("nat.hour").is_nan(), table.as_of) == (True, None)
    assert table.source == "list prices of us-gov-west-1, of which there is no table"


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = prices.PriceTable(
        "xx", {"nat.hour": Price(Decimal("0.10"), TODAY), "alarm.month": Price(Decimal("1E-7"), date(2020, 1, 1))}
    )
    table.write(tmp_path)
    assert prices.load("xx", tmp_path) == table
    assert table.as_of == date(2020, 1, 1)
    assert table.usd("d").is_nan()


def product(usage_type: str, unit: str, *tiers: tuple[str, str], **attributes: str) -> str:
    """Return a product in the API's form: JSON in a string. `tiers` are (beginRange, price)."""
    dimensions = {
        f"dimension-{number}": {"unit": unit, "beginRange": begin, "endRange": "Inf", "pricePerUnit": {"USD": usd}}
        for number, (begin, usd) in enumerate(tiers)
    }
    attributes = {"usagetype": usage_type, "regionCode": "us-west-2", **attributes}
    return json.dumps(
        {
            "product": {"sku": "S", "attributes": attributes},
            "terms": {"OnDemand": {"S.T": {"priceDimensions": dimensions}}, "Reserved": {"S.R": {"priceDimensions": {}}}},
        }
    )


def asked(question: Question, *pages: list[str]) -> tuple[Decimal | str, list[dict[str, Any]]]:
    """Return the price, or the reason for its absence, and the requested filters; `pages` are the answer."""
    client = boto3.client("pricing", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    requests: list[dict[str, Any]] = []
    client.meta.events.register(
        "provide-client-params.pricing.GetProducts", lambda params, **_: requests.append(dict(params))
    )
    with Stubber(client) as stub:
        for number, page in enumerate(pages):
            following = {"NextToken": f"page-{number + 1}"} if number + 1 < len(pages) else {}
            expected = {"ServiceCode": question.service, "Filters": ANY, "FormatVersion": "aws_v1", "MaxResults": 100}
            expected |= {"NextToken": f"page-{number}"} if number else {}
            stub.add_response("get_products", {"FormatVersion": "aws_v1", "PriceList": page, **following}, expected)
        try:
            found: Decimal | str = refresh._price(client, "us-west-2", question)
        except refresh._NotOnePrice as error:
            found = str(error)
        stub.assert_no_pending_responses()
    return found, requests[0]["Filters"]


NAT = refresh._QUESTIONS["nat.hour"]


def test_a_price_is_found_behind_other_products_on_a_later_page() -> None:
    other = product("USW2-NatGateway-Bytes", "GB", ("0", "0.045"))
    price, filters = asked(NAT, [other] * 3, [product("USW2-NatGateway-Hours", "Hrs", ("0", "0.0450000000"))])
    assert price == Decimal("0.045")
    assert filters == [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"},
        {"Type": "CONTAINS", "Field": "usagetype", "Value": "NatGateway-Hours"},
    ]


def test_units_are_converted_and_free_tiers_passed_over() -> None:
    question = refresh._QUESTIONS["sqs.million-requests"]
    tiers = (("100000000000", "0.0000003000"), ("0", "0.0000000000"), ("1000000", "0.0000004000"))
    assert asked(question, [product("USW2-Requests-Tier1", "Requests", *tiers)])[0] == Decimal("0.4")


def test_an_instance_is_asked_for_as_linux_on_demand() -> None:
    question = refresh._all_questions()["ec2.g5.xlarge"]
    price, filters = asked(question, [product("USW2-BoxUsage:g5.xlarge", "Hrs", ("0", "1.0060000000"))])
    assert price == Decimal("1.006")
    asked_for = {one["Field"]: one["Value"] for one in filters}
    assert asked_for["instanceType"] == "g5.xlarge"
    assert (asked_for["operatingSystem"], asked_for["capacitystatus"], asked_for["tenancy"]) == ("Linux", "Used", "Shared")


@pytest.mark.parametrize(
    ("products", "said"),
    [
        ([], "AmazonEC2 has 0 prices of NatGateway-Hours in us-west-2: none"),
        ([product("USW2-NatGateway-Hours", "Hrs", ("0", usd)) for usd in ("1", "2")], "has 2 prices of .*: 1, 2"),
        ([product("USW2-NatGateway-Hours", "Fortnights", ("0", "1"))], "gives NatGateway-Hours in 'Fortnights'"),
        ([product("USW2-NatGateway-Hours", "Hrs", ("0", "0"))], "has 0 prices"),
    ],
)
def test_an_answer_that_is_not_one_price_is_none(products: list[str], said: str) -> None:
    found, _ = asked(NAT, products)
    assert isinstance(found, str)
    assert __import__("re").search(said, found), found


def test_what_is_not_found_keeps_its_price_and_its_date(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Decimal] = {"nat.hour": Decimal("0.05"), "alarm.month": Decimal("0.10")}

    def price(_: Any, __: str, question: Question) -> Decimal:
        for key, usd in answers.items():
            if refresh._QUESTIONS[key] == question:
                return usd
        raise refresh._NotOnePrice("none")

    monkeypatch.setattr(refresh, "_price", price)
    before = date(2025, 1, 1)
    old = {
        key: Price(Decimal(usd), before)
        for key, usd in (("nat.hour", "0.045"), ("alarm.month", "0.10"), ("kms.key-month", "1"))
    }
    found = refresh.look_up(None, "us-west-2", old, TODAY)
    assert found.table.prices == {
        "nat.hour": Price(Decimal("0.05"), TODAY),
        "alarm.month": Price(Decimal("0.10"), TODAY),
        "kms.key-month": Price(Decimal("1"), before),
    }
    assert found.changed == {"nat.hour": Decimal("0.045")}
    assert found.missing.keys() == {*KEYS, *(f"ec2.{name}" for name in INSTANCE_TYPES)} - BY_HAND - answers.keys()
    assert found.table.as_of == before


def test_every_price_of_the_table_has_a_question() -> None:
    assert refresh._all_questions().keys() == {*KEYS, *(f"ec2.{name}" for name in INSTANCE_TYPES)} - BY_HAND
