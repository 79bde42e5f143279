"""Check claims about AWS resources: EKS, IAM, endpoints, logs, budget, prices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

from spec.names import budget, container_log_group, model_bucket, runner_project
from stackctl.certify.outcome import Outcome, agree, differ, judged, not_tried
from stackctl.certify.subject import Subject
from stackctl.cost import prices as price_tables
from stackctl.cost.refresh import API_REGION, look_up

_ROLE = "aws:iam/role:Role"
_READER = "model-reader"
_GRAVE = frozenset({"ERROR", "SECURITY_WARNING"})
"""Types of findings that make a policy wrong.

https://docs.aws.amazon.com/IAM/latest/UserGuide/access-analyzer-reference-policy-checks.html
"""
_ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
_HTTPS = 443
_BUDGETS_REGION = "us-east-1"
_DAY, _BUDGET_POLL = 24 * 3600, 3600
_NEAR = Decimal("0.01")
"""Accepted relative difference between a price and the table's price."""


def add_ons_and_access_entries(subject: Subject) -> Outcome:
    """Check that add-ons are active and the stack file's administrators have access entries."""
    return judged(_of_eks(subject), not_tried("the cluster has no add-on"))


def _of_eks(subject: Subject) -> Iterator[tuple[bool, str]]:
    eks, cluster = subject.readers("eks"), subject.settings.used_cluster
    for name in eks.list_addons(clusterName=cluster)["addons"]:
        addon = eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
        issues = [str(issue.get("message") or issue.get("code")) for issue in addon.get("health", {}).get("issues", [])]
        line = " ".join([f"{name} {addon['addonVersion']} is {addon['status']}", *issues])
        yield addon["status"] == "ACTIVE", line
    entries = set(eks.list_access_entries(clusterName=cluster)["accessEntries"])
    for arn in subject.settings.cluster.admin_role_arns:
        yield arn in entries, f"{arn} has {'an' if arn in entries else 'no'} access entry"


def endpoints_are_available(subject: Subject) -> Outcome:
    """Check that each of the stack's VPC endpoints is available, and report its service."""
    ids = [resource.id for resource in subject.resources if resource.type == _ENDPOINT]
    if not ids:
        return not_tried("the stack has no VPC endpoint")
    pages = subject.readers("ec2").get_paginator("describe_vpc_endpoints").paginate(VpcEndpointIds=ids)
    seen = [
        (str(one["State"]).lower() == "available", f"{one['ServiceName']} is {one['State']}")
        for page in pages
        for one in page["VpcEndpoints"]
    ]
    return judged(seen, differ(f"AWS has none of the endpoints {', '.join(ids)}"))


def budget_counts(subject: Subject) -> Outcome:
    """Check that the stack's budget counts any cost. If the run has the time, wait a day for it."""
    settings = subject.settings
    if settings.cost is None:
        return not_tried("the stack has no budget (section cost)")
    name = budget(settings.cluster_name, settings.region)
    budgets, asked = subject.readers("budgets", _BUDGETS_REGION), {"AccountId": subject.caller.account, "BudgetName": name}
    waits = range(_DAY // _BUDGET_POLL) if subject.time_left() > _DAY else ()
    for pause in (0, *(_BUDGET_POLL for _ in waits)):
        if pause:
            subject.sleep(pause)
        spend = budgets.describe_budget(**asked)["Budget"].get("CalculatedSpend", {}).get("ActualSpend")
        if spend is not None and Decimal(spend["Amount"]) > 0:
            return agree(f"{name} counts {spend['Amount']} {spend['Unit']}")
    if not waits:
        return not_tried(f"{name} counts 0, and costs reach a budget within a day: give certify --hours 30")
    return differ(f"after a day {name} counts 0: are project and environment cost allocation tags? (docs/cost.md)")


def who_reaches_the_api_server(subject: Subject) -> Outcome:
    """Compare the sources of port 443 of EKS's security group with the stack file."""
    cluster, access = subject.settings.cluster, subject.settings.cluster.api_access
    if cluster.existing is not None or access is None:
        return not_tried("the stack file names nobody beside the nodes")
    eks = subject.readers("eks").describe_cluster(name=subject.settings.used_cluster)["cluster"]
    group = eks["resourcesVpcConfig"]["clusterSecurityGroupId"]
    named = {*map(str, access.cidrs), *access.security_groups}
    if access.runner is not None:
        runners = [
            {"Name": "vpc-id", "Values": [eks["resourcesVpcConfig"]["vpcId"]]},
            {"Name": "tag:Name", "Values": [runner_project(subject.settings.used_cluster)]},
        ]
        found = subject.readers("ec2").describe_security_groups(Filters=runners)["SecurityGroups"]
        named |= {one["GroupId"] for one in found} or {"the runner"}
    let_in = set[str]()
    for rule in subject.readers("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]:
        if rule.get("FromPort", 0) <= _HTTPS <= rule.get("ToPort", _HTTPS):
            let_in |= {one["CidrIp"] for one in rule.get("IpRanges", [])}
            let_in |= {one["CidrIpv6"] for one in rule.get("Ipv6Ranges", [])}
            let_in |= {one["GroupId"] for one in rule.get("UserIdGroupPairs", [])} - {group}
    seen = [(one in let_in, f"{one} is {'' if one in let_in else 'not '}let in") for one in sorted(named)]
    seen += [(False, f"{one} is let in, and not named") for one in sorted(let_in - named)]
    return judged(seen, not_tried("nobody is named"))


def logs_arrive(subject: Subject) -> Outcome:
    """Check that the containers' log group is encrypted and has streams.

    A sender creates the streams.
    """
    if subject.settings.logs is None:
        return not_tried("the stack sends no logs of containers")
    logs, name = subject.readers("logs"), container_log_group(subject.settings.cluster_name)
    group = next((one for one in logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]), None)
    if group is None:
        return differ(f"there is no log group {name}")
    streams = logs.describe_log_streams(logGroupName=name, limit=50)["logStreams"]
    seen = [
        ("kmsKeyId" in group, f"{name} is encrypted with {group.get('kmsKeyId', 'no key of ours')}"),
        (bool(streams), f"{name} has {len(streams)} streams, of the first 50"),
    ]
    return judged(seen, not_tried("there is no log group"))


def iam_documents(subject: Subject) -> Outcome:
    """Validate the policies and trust of the stack's roles with IAM Access Analyzer.

    Policies that AWS manages are left out.
    """
    return judged(_of_analyzer(subject), not_tried("the stack has no role"))


def _of_analyzer(subject: Subject) -> Iterator[tuple[bool, str]]:
    analyzer = subject.readers("accessanalyzer")
    for role, name, document, kind in _documents(subject):
        asked = {"policyDocument": json.dumps(document), "policyType": kind}
        if kind == "RESOURCE_POLICY":
            asked["validatePolicyResourceType"] = "AWS::IAM::AssumeRolePolicyDocument"
        grave = [found for found in analyzer.validate_policy(**asked)["findings"] if found["findingType"] in _GRAVE]
        yield from ((False, f"{role}, {name}: {found['findingDetails']}") for found in grave)
        if not grave:
            yield True, f"{role}, {name}: no error and no security warning"


def reader_reads_releases_alone(subject: Subject) -> Outcome:
    """Simulate the access of Triton's role with IAM's simulator.

    The simulator ignores the bucket's own policy.
    """
    role = next((found for found in subject.resources if found.type == _ROLE and found.name.startswith(_READER)), None)
    if role is None:
        return not_tried("the stack has no role for reading models")
    iam = subject.readers("iam")
    described = iam.get_role(RoleName=role.id)["Role"]
    account, partition = described["Arn"].split(":")[4], described["Arn"].split(":")[1]
    bucket = f"arn:{partition}:s3:::{model_bucket(subject.settings.stack, account, subject.settings.region)}"
    seen = []
    for action, resource, wanted in (
        ("s3:GetObject", f"{bucket}/releases/0/model", True),
        ("s3:GetObject", f"{bucket}/elsewhere/model", False),
        ("s3:PutObject", f"{bucket}/releases/0/model", False),
        ("s3:GetObject", f"arn:{partition}:s3:::another-bucket/releases/0/model", False),
    ):
        asked = iam.simulate_principal_policy(
            PolicySourceArn=described["Arn"], ActionNames=[action], ResourceArns=[resource]
        )
        decision = asked["EvaluationResults"][0]["EvalDecision"]
        seen.append(((decision == "allowed") is wanted, f"{action} on {resource}: {decision}"))
    return judged(seen, not_tried("nothing was asked"))


def prices(subject: Subject) -> Outcome:
    """Look up the region's prices, and compare them with the table that estimates use.

    A bill would come days later.
    """
    region = subject.settings.region
    table = price_tables.load(region).prices
    found = look_up(subject.readers("pricing", API_REGION), region, table, date.today())
    seen = [
        (False, f"{key}: {before} US$ in the table, {found.table.prices[key].usd} now")
        for key, before in sorted(found.changed.items())
        if before is not None and abs(before - found.table.prices[key].usd) > before * _NEAR
    ]
    compared = len(table) - len(found.missing)
    if compared and not seen:
        seen = [(True, f"{compared} of {len(table)} prices were found, and each is within 1 % of the table")]
    return judged(seen, not_tried("AWS's price list has none of the table's prices"))


def _documents(subject: Subject) -> Iterator[tuple[str, str, Any, str]]:
    """Yield role, name, document and kind of each policy, except policies that AWS manages."""
    iam = subject.readers("iam")
    for role in (found for found in subject.resources if found.type == _ROLE):
        trust = iam.get_role(RoleName=role.id)["Role"]["AssumeRolePolicyDocument"]
        yield role.id, "trust", trust, "RESOURCE_POLICY"
        for name in iam.list_role_policies(RoleName=role.id)["PolicyNames"]:
            document = iam.get_role_policy(RoleName=role.id, PolicyName=name)["PolicyDocument"]
            yield role.id, name, document, "IDENTITY_POLICY"
        for attached in iam.list_attached_role_policies(RoleName=role.id)["AttachedPolicies"]:
            if attached["PolicyArn"].split(":")[4] == "aws":
                continue
            version = iam.get_policy(PolicyArn=attached["PolicyArn"])["Policy"]["DefaultVersionId"]
            kept = iam.get_policy_version(PolicyArn=attached["PolicyArn"], VersionId=version)["PolicyVersion"]
            yield role.id, attached["PolicyName"], kept["Document"], "IDENTITY_POLICY"
