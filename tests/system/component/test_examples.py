"""Brings up each scenario of examples/stacks on moto, and compares its registrations with the reviewed snapshot."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from spec.settings import load
from spec.versions import PROJECT
from tests import snapshots
from tests.golden import Golden
from tests.paths import ROOT
from tests.system.component import existing_account
from tests.system.component.engine import snapshot
from tests.system.component.engine.account import fresh_account, seed_roles, seed_topics
from tests.system.component.engine.stack_run import TODAY, deployed
from twin.aws.base.clients import Clients

CHECKED_ELSEWHERE = ("(kubernetes:core/v1:ConfigMap)", "(kubernetes:monitoring.coreos.com/v1:PrometheusRule)")
"""Dashboards and rules, half of the text: the four stacks have all of them, and promtool and tests/infra check them."""


@pytest.mark.parametrize("name", snapshots.EXAMPLES)
def test_the_registrations_of_an_example_are_those_that_were_reviewed(name: str, golden: Golden) -> None:
    text = (ROOT / "examples" / "stacks" / f"{name}.yaml").read_text(encoding="utf-8")
    with fresh_account():
        clients = Clients("us-west-2")
        ids = _of_this_account(clients, yaml.safe_load(text)["config"])
        for ours, theirs in ids.items():
            text = text.replace(ours, theirs)
        config = yaml.safe_load(text)["config"]
        settings = load(config, name, today=TODAY)
        if settings.cluster.existing is None:
            seed_roles(clients, settings.cluster)
        seed_topics(clients, config)
        registered = json.dumps(snapshot.content(deployed(settings, config, clients, preview=False)))
    for ours, theirs in ids.items():
        registered = registered.replace(theirs, ours)
    content = json.loads(registered)
    for key, entry in snapshots.resources("prod").items():
        if key in content["resources"] and key.endswith(CHECKED_ELSEWHERE):
            content["resources"][key] = entry
    golden.check(snapshots.file_of(name), snapshots.text(name, content))


def _of_this_account(clients: Clients, config: dict[str, Any]) -> dict[str, str]:
    """Create the resources that the example requires. Return the account's ids by the example's ids."""
    ids = {}
    if vpc := config[f"{PROJECT}:network"].get("existing"):
        made = existing_account.make_vpc(clients)
        existing_account.make_cluster(clients, made)
        cluster = clients("eks").describe_cluster(name=existing_account.CLUSTER)["cluster"]
        ids |= {"<authority>": cluster["certificateAuthority"]["data"], "<endpoint>": cluster["endpoint"]}
        ids[vpc["vpcId"]] = made.id
        for key, subnets in (("privateSubnetIds", made.private), ("publicSubnetIds", made.public)):
            ids |= {id: subnets[zone] for zone, id in vpc[key].items()}
    for group in config[f"{PROJECT}:cluster"].get("apiAccess", {}).get("securityGroups", ()):
        ids[group] = clients("ec2").create_security_group(GroupName="bastion", Description="of somebody else")["GroupId"]
    if domain := config.get(f"{PROJECT}:gateway", {}).get("domain"):
        for key in ("hostedZoneId", "publicZoneId"):
            ids[domain[key]] = _zone(clients, private=key == "hostedZoneId")
    return ids


def _zone(clients: Clients, *, private: bool) -> str:
    """Create a hosted zone `example.com`, private to the account's default VPC or public. Return its id."""
    vpc = {"VPCRegion": "us-west-2", "VPCId": clients("ec2").describe_vpcs()["Vpcs"][0]["VpcId"]}
    more = {"VPC": vpc, "HostedZoneConfig": {"Comment": "", "PrivateZone": True}} if private else {}
    zone = clients("route53").create_hosted_zone(Name="example.com", CallerReference=str(private), **more)
    return str(zone["HostedZone"]["Id"]).rpartition("/")[2]
