"""The bootstrap stack on moto: its resources, trust and permissions."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pulumi
import pytest

from bootstrap import deploy_permissions, github, limits, permissions, program
from bootstrap.bounds import Scope
from bootstrap.settings import Settings, SettingsInvalid, from_pulumi
from bootstrap.stacks import StackFacts
from spec.iam_policy import document
from tests.bootstrap.roles import ACCOUNT, scope
from tests.paths import ROOT
from tests.system.component import iam_lint
from tests.system.component.engine.account import fresh_account
from tests.system.component.engine.lifecycle import refresh
from tests.system.component.engine.program import run
from tests.system.component.engine.recording import Recording
from twin.aws.base.clients import Clients

REGION = "us-west-2"
REPOSITORY = "example-org/triton-eks"
STACKS = tuple(StackFacts(name, name, REGION) for name in ("dev", "staging", "prod"))
ROLE, POLICY, INLINE = "aws:iam/role:Role", "aws:iam/policy:Policy", "aws:iam/rolePolicy:RolePolicy"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
EXEMPT = {
    ("AccountAdministers", "kms:*"): "AWS's own default statement of a key: without it nobody could administer the key once "
    "its users are gone",
}
"""Accepted statements and actions, with the reasons."""
_MANAGED_LIMIT, _MANAGED_POLICIES, _INLINE_LIMIT = 6144, 10, 10240
"""Characters of a managed policy, without white space; managed policies of a role by default; characters of all inline ones:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html."""
_READS = re.compile(r"^[\w-]+:(BatchGet|Describe|Get|List|View|Decrypt$)")


@dataclass(frozen=True)
class Made:
    """A preview of the program, an update, and the account."""

    clients: Clients
    preview: Recording
    up: Recording


def recorded(clients: Clients, *, preview: bool = False, **settings: Any) -> Recording:
    wanted = Settings(**{"repository": REPOSITORY, "stacks": STACKS, **settings})

    def deploy() -> None:
        program.deploy(wanted, REGION)

    config = {"aws:region": REGION}
    return run(
        deploy, project="triton-eks-bootstrap", stack="main", config=config, root=ROOT, clients=clients, preview=preview
    )


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    with fresh_account():
        clients = Clients(REGION)
        yield Made(clients, recorded(clients, preview=True), recorded(clients))


def statements(document: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(document)["Statement"]
    return found


def test_preview_and_up_register_the_same_and_a_refresh_finds_no_drift(made: Made) -> None:
    assert made.preview.urns() == made.up.urns()
    found = refresh(made.clients, made.up)
    assert (found.outputs, found.inputs) == ([], [])


def test_the_state_bucket_is_versioned_encrypted_private_and_outlives_the_stack(made: Made) -> None:
    bucket = made.up.one("aws:s3/bucket:Bucket", "state-bucket")
    assert bucket.checked["bucket"] == "pulumi-state-123456789012-us-west-2"
    assert (bucket.protect, bucket.retain_on_delete, bucket.checked["forceDestroy"]) == (True, True, False)
    versioning = made.up.one("aws:s3/bucketVersioning:BucketVersioning")
    assert versioning.checked["versioningConfiguration"] == {"status": "Enabled"}
    block = made.up.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", "state-public-access").checked
    assert {value for key, value in block.items() if key != "bucket"} == {True}
    denied = {one["Sid"]: one for one in statements(made.up.one(BUCKET_POLICY, "state-policy").checked["policy"])}
    assert denied["TlsOnly"]["Action"] == "s3:*"
    assert denied["NoOldTls"]["Condition"] == {"NumericLessThan": {"s3:TlsVersion": "1.2"}}
    assert denied["NoOldTls"]["Action"] == "s3:*"
    assert denied["NoOtherKey"]["Effect"] == "Deny"


def test_each_access_to_the_state_is_logged_where_no_role_of_the_workflows_reaches(made: Made) -> None:
    s3, log = made.clients("s3"), "pulumi-state-log-123456789012-us-west-2"
    assert s3.get_bucket_logging(Bucket="pulumi-state-123456789012-us-west-2")["LoggingEnabled"] == {
        "TargetBucket": log,
        "TargetPrefix": "",
    }
    bucket = made.up.one("aws:s3/bucket:Bucket", "state-log-bucket")
    assert (bucket.protect, bucket.retain_on_delete, bucket.checked["forceDestroy"]) == (True, True, False)
    (rule,) = s3.get_bucket_encryption(Bucket=log)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    found = {one["Sid"]: one for one in statements(made.up.one(BUCKET_POLICY, "state-log-policy").checked["policy"])}
    assert sorted(found) == ["DeliverLogs", "NoOldTls", "TlsOnly"]
    assert found["DeliverLogs"]["Principal"] == {"Service": "logging.s3.amazonaws.com"}
    assert found["DeliverLogs"]["Condition"] == {
        "ArnEquals": {"aws:SourceArn": "arn:aws:s3:::pulumi-state-123456789012-us-west-2"},
        "StringEquals": {"aws:SourceAccount": "123456789012"},
    }
    writes = [
        resource
        for name in ("dev", "staging", "prod")
        for policy in policies(made, f"triton-eks-deploy-{name}").values()
        for statement in policy
        if statement["Effect"] == "Allow" and any(action.startswith("s3:") for action in statement["Action"])
        for resource in statement["Resource"]
        if fnmatch.fnmatchcase(f"arn:aws:s3:::{log}/2026/key", resource)
        or fnmatch.fnmatchcase(f"arn:aws:s3:::{log}", resource)
    ]
    assert writes == []


def test_both_keys_rotate_and_are_never_deleted(made: Made) -> None:
    keys = made.up.of_type("aws:kms/key:Key")
    assert [key.name for key in keys] == ["state-encryption-key", "state-secrets-key"]
    for key in keys:
        assert (key.checked["enableKeyRotation"], key.protect, key.retain_on_delete) == (True, True, True)
    assert {alias.checked["name"] for alias in made.up.of_type("aws:kms/alias:Alias")} == {
        "alias/pulumi-secrets",
        "alias/pulumi-state",
    }


def test_what_the_workflows_are_told_is_exported(made: Made) -> None:
    assert made.up.exports == {
        "backendUrl": "s3://pulumi-state-123456789012-us-west-2?region=us-west-2",
        "secretsProvider": "awskms://alias/pulumi-secrets?region=us-west-2",
        "previewRoleArn": "arn:aws:iam::123456789012:role/triton-eks-preview",
        "deployRoles": json.dumps(
            {name: f"arn:aws:iam::123456789012:role/triton-eks-deploy-{name}" for name in ("dev", "staging", "prod")}
        ),
    }


@pytest.mark.parametrize(
    ("role", "subjects"),
    [
        ("github-preview-role", ["pull_request", "ref:refs/heads/main"]),
        ("github-dev-deploy-role", ["environment:dev"]),
        ("github-staging-deploy-role", ["environment:staging"]),
        ("github-prod-deploy-role", ["environment:prod"]),
    ],
)
def test_a_role_is_bound_to_this_repository_and_its_purpose(made: Made, role: str, subjects: list[str]) -> None:
    provider = made.up.one("aws:iam/openIdConnectProvider:OpenIdConnectProvider")
    assert (provider.checked["url"], provider.checked["clientIdLists"]) == (
        f"https://{github.ISSUER}",
        ["sts.amazonaws.com"],
    )
    (trust,) = statements(made.up.one(ROLE, role).checked["assumeRolePolicy"])
    assert trust == {
        "Effect": "Allow",
        "Principal": {"Federated": provider.outputs["arn"]},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {
                "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
                "token.actions.githubusercontent.com:sub": [f"repo:{REPOSITORY}:{subject}" for subject in subjects],
            }
        },
    }


@pytest.mark.parametrize(
    ("ids", "prefix"),
    [
        ({}, "repo:octocat/my-repo:"),
        ({"repository_owner_id": 123456, "repository_id": 456789}, "repo:octocat@123456/my-repo@456789:"),
    ],
)
def test_a_repository_is_trusted_by_the_subject_that_github_gives_it_and_by_no_other(
    ids: dict[str, int], prefix: str
) -> None:
    """As in https://github.com/github/docs/pull/45221."""
    settings = Settings(repository="octocat/my-repo", environments=("prod",), **ids)
    assert github.preview_subjects(settings) == [f"{prefix}pull_request", f"{prefix}ref:refs/heads/main"]
    assert github.deploy_subject(settings, "prod") == f"{prefix}environment:prod"


def test_without_a_repository_there_is_a_place_for_state_and_nothing_of_github(made: Made) -> None:
    found = recorded(made.clients, preview=True, repository=None)
    assert {item.name for item in made.preview.registrations} - {item.name for item in found.registrations} == {
        item.name for item in made.preview.registrations if item.name.startswith("github")
    }
    assert found.exports.keys() == {"backendUrl", "secretsProvider"}


SPOT = "aws:iam/serviceLinkedRole:ServiceLinkedRole"


def test_the_role_of_spot_instances_is_made_and_stays_the_stacks_own(made: Made) -> None:
    role = made.up.one(SPOT)
    assert (role.checked["awsServiceName"], role.retain_on_delete) == ("spot.amazonaws.com", True)
    assert recorded(made.clients, preview=True).of_type(SPOT) != []


def test_a_role_of_spot_instances_that_others_made_is_left_alone(made: Made) -> None:
    iam, role, tags = made.clients("iam"), made.up.one(SPOT).outputs["name"], made.up.one(SPOT).checked["tags"]
    iam.untag_role(RoleName=role, TagKeys=list(tags))
    try:
        assert recorded(made.clients, preview=True).of_type(SPOT) == []
    finally:
        iam.tag_role(RoleName=role, Tags=[{"Key": key, "Value": value} for key, value in tags.items()])


def policies(made: Made, role: str) -> dict[str, list[dict[str, Any]]]:
    """Return the statements of each policy of a role, by the policy's name."""
    attached = {item.checked["policyArn"] for item in made.up.of_type(ATTACHMENT) if item.checked["role"] == role}
    managed = [item for item in made.up.of_type(POLICY) if item.outputs["arn"] in attached]
    inline = [item for item in made.up.of_type(INLINE) if item.checked["role"] == role]
    return {item.name: statements(item.checked["policy"]) for item in (*managed, *inline)}


def characters(policy: Any) -> int:
    """Return the number of characters that IAM counts."""
    return len(re.sub(r"\s", "", json.dumps(policy)))


def actions(found: list[dict[str, Any]], effect: str = "Allow") -> set[str]:
    return {action for one in found if one["Effect"] == effect for action in one["Action"]}


def test_previews_read_and_do_nothing_else(made: Made) -> None:
    found = policies(made, "triton-eks-preview")
    assert set(found) == {"github-preview-state-inline", "github-preview-read"}
    allowed = set().union(*map(actions, found.values()))
    assert {action for action in allowed if not _READS.match(action)} == set()


def test_previews_read_no_data_but_the_state(made: Made) -> None:
    found = policies(made, "triton-eks-preview")
    data = {"s3:GetObject", "sqs:ReceiveMessage", "logs:GetLogEvents", "secretsmanager:GetSecretValue", "ssm:GetParameter"}
    assert not data & actions(found["github-preview-read"])
    (reading,) = [one for one in found["github-preview-state-inline"] if one["Action"] == ["s3:GetObject"]]
    assert reading["Resource"] == ["arn:aws:s3:::pulumi-state-123456789012-us-west-2/.pulumi/*"]


@pytest.mark.parametrize("role", ["triton-eks-preview", "triton-eks-deploy-dev", "triton-eks-deploy-prod"])
def test_no_action_is_a_wildcard_and_each_policy_fits(made: Made, role: str) -> None:
    for name, found in policies(made, role).items():
        assert not [action for action in actions(found) if "*" in action], name
        assert characters(found) < _MANAGED_LIMIT - 50, name


def test_each_role_has_room_for_two_more_managed_policies_with_all_that_can_be_set(made: Made) -> None:
    """If one exceeds the quota, the stack's next `up` fails half-way."""
    zones = tuple(f"Z{number:020}" for number in range(5))
    accounts = tuple(f"{number:012}" for number in range(5))
    found = recorded(made.clients, preview=True, hosted_zones=zones, release_accounts=accounts)
    attached = Counter(item.checked["role"] for item in found.of_type(ATTACHMENT))
    assert {role: _MANAGED_POLICIES - number for role, number in attached.items()} == {
        "triton-eks-preview": 9,
        **{f"triton-eks-deploy-{name}": 2 for name in ("dev", "staging", "prod")},
    }
    own = [item.checked for item in found.of_type(INLINE)]
    assert {(one["role"], one["name"]) for one in own} == {
        ("triton-eks-preview", "state"),
        ("triton-eks-preview", "domains"),
        *(
            (f"triton-eks-deploy-{name}", purpose)
            for name in ("dev", "staging", "prod")
            for purpose in ("state", "access", "domains", "promote")
        ),
    }


@pytest.mark.parametrize(
    ("partition", "region"), [("aws", "ap-northeast-1"), ("aws-us-gov", "us-gov-west-1"), ("aws-cn", "cn-northwest-1")]
)
def test_each_policy_fits_where_arns_are_longest(partition: str, region: str) -> None:
    """IAM refuses a policy that is too long during the bootstrap stack's `up`, after half of the others."""
    account = replace(ACCOUNT, partition=partition, region=region)
    clusters = [f"{number:030}" for number in range(5)]
    reach = scope("staging-with-a-name", "staging", account=account, clusters=clusters)
    managed = {"read": permissions.read(account), **deploy_permissions.deploy(reach)}
    lengths = {name: characters(json.loads(document(*found))) for name, found in managed.items()}
    assert {name: length for name, length in lengths.items() if length > _MANAGED_LIMIT} == {}
    zones, accounts = [f"Z{number:020}" for number in range(5)], [f"{number:012}" for number in range(5)]
    key = account.arn("kms", f"key/{'k' * 36}")
    inline = [
        permissions.write_state(permissions.StateAccess(f"arn:{partition}:s3:::{'b' * 63}", key, key), reach.stacks),
        document(*deploy_permissions.access(reach)),
        document(*deploy_permissions.domains(reach, zones)),
        document(*deploy_permissions.promote(reach, accounts)),
    ]
    assert sum(characters(json.loads(text)) for text in inline) < _INLINE_LIMIT


def reach(settings: Settings) -> list[Scope]:
    """Return the scope of each deploy role in an account without roles."""
    return [replace(scope(one.name), clusters=settings.clusters) for one in settings.stacks]


@pytest.mark.parametrize(
    ("key", "names", "room", "said"),
    [
        (
            "clusters",
            [f"{number:030}" for number in range(30)],
            5,
            "^clusters: these 30 names, and 1 stacks of one environment, make a policy of [0-9]+ char.*6144",
        ),
        ("hosted_zones", [f"Z{number:020}" for number in range(90)], 5, "^hostedZones and releaseAccounts: these 90 and 0 "),
        ("release_accounts", [f"{number:012}" for number in range(90)], 5, "^hostedZones and .*: these 0 and 90 make "),
    ],
)
def test_more_names_than_iam_has_room_for_are_refused_before_anything_is_made(
    key: str, names: list[str], room: int, said: str
) -> None:
    few, many = (Settings(repository=REPOSITORY, stacks=STACKS, **{key: tuple(found)}) for found in (names[:room], names))
    assert list(limits.problems(ACCOUNT, few, reach(few))) == []
    (told,) = limits.problems(ACCOUNT, many, reach(many))
    assert re.search(said, told)
    with fresh_account(), pytest.raises(SettingsInvalid, match=said):
        recorded(Clients(REGION), preview=True, **{key: tuple(names)})


def test_the_room_for_names_is_that_of_the_policies_that_are_made() -> None:
    clusters, size = tuple(f"{number:030}" for number in range(30)), 0
    settings = Settings(repository=REPOSITORY)
    while not list(limits.problems(ACCOUNT, settings, [scope("prod", clusters=clusters[: size + 1])])):
        size += 1
    made, more = (deploy_permissions.deploy(scope("prod", clusters=clusters[:number])) for number in (size, size + 1))
    lengths = [max(characters(json.loads(document(*one))) for one in found.values()) for found in (made, more)]
    assert lengths[0] <= _MANAGED_LIMIT < lengths[1]


def test_who_deploys_cannot_take_away_the_keys_of_the_state(made: Made) -> None:
    (denied,) = [
        one for one in policies(made, "triton-eks-deploy-prod")["github-prod-deploy-data"] if one["Effect"] == "Deny"
    ]
    ((_, wanted),) = denied["Condition"].items()
    assert {"kms:PutKeyPolicy", "kms:ScheduleKeyDeletion", "kms:TagResource", "kms:UntagResource"} <= set(denied["Action"])
    for key in made.up.of_type("aws:kms/key:Key"):
        assert {f"aws:ResourceTag/{tag}": value for tag, value in key.checked["tags"].items()}.items() >= wanted.items()


def test_every_document_of_the_stack_is_in_order(made: Made) -> None:
    """Roles and their policies, the policies of the bucket and of the keys: all except exact pairs, each with its reason."""
    # A boundary limits and grants no permission: it has patterns of actions (test_authority.py).
    found = [one for one in iam_lint.documents(made.up) if not one.owner.startswith("boundary-")]
    kinds = Counter(one.type for one in found)
    assert kinds == {ROLE: 4, POLICY: 25, INLINE: 9, BUCKET_POLICY: 2, "aws:kms/key:Key": 2}
    findings = [finding for one in found for finding in iam_lint.lint(one)]
    assert [str(one) for one in findings if (one.statement, one.subject) not in EXEMPT] == []
    assert {(one.statement, one.subject) for one in findings} == EXEMPT.keys()


def test_each_further_region_has_roles_of_its_own_for_its_stacks_and_the_one_state(made: Made) -> None:
    stacks = (*STACKS, StackFacts("prod-eu", "prod", "eu-central-1"), StackFacts("dev-us", "dev", "us-east-1"))
    found = recorded(made.clients, preview=True, regions=("eu-central-1",), stacks=stacks)
    added = {one.urn for one in found.registrations} - {one.urn for one in made.preview.registrations}
    assert {urn.rpartition("::")[2].partition("-eu")[0] for urn in added} == {
        "boundary-prod",
        "github-preview",
        "github-prod-deploy",
    }
    roles = {role.name: role.checked["name"] for role in found.of_type(ROLE)}
    assert roles["github-prod-deploy-role"] == "triton-eks-deploy-prod"
    assert roles["github-prod-deploy-eu-central-1-role"] == "triton-eks-deploy-prod-eu-central-1"
    documents = {policy.checked["name"]: policy.checked["policy"] for policy in found.of_type(POLICY)}
    theirs = {name: text for name, text in documents.items() if "-eu-central-1-" in name or name.endswith("-prod-eu")}
    assert len(theirs) == 10
    assert {region for text in theirs.values() for region in re.findall(r"(?<=:)[a-z]+-[a-z]+-\d(?=:)", text)} == {
        "eu-central-1"
    }
    assert json.loads(found.exports["deployRoles"]) == {
        **{name: f"arn:aws:iam::123456789012:role/triton-eks-deploy-{name}" for name in ("dev", "staging", "prod")},
        "prod-eu": "arn:aws:iam::123456789012:role/triton-eks-deploy-prod-eu-central-1",
    }


def test_the_stacks_of_an_environment_share_its_role_and_have_a_boundary_each(made: Made) -> None:
    found = recorded(made.clients, preview=True, stacks=(*STACKS, StackFacts("prod-b", "prod", REGION)))
    assert json.loads(found.exports["deployRoles"])["prod-b"] == "arn:aws:iam::123456789012:role/triton-eks-deploy-prod"
    identity = statements(found.one(POLICY, "github-prod-deploy-identity").checked["policy"])
    (making,) = [one for one in identity if one.get("Sid") == "MakeRoles"]
    assert making["Condition"]["ArnEquals"] == {
        "iam:PermissionsBoundary": [
            "arn:aws:iam::123456789012:policy/triton-eks-boundary-prod",
            "arn:aws:iam::123456789012:policy/triton-eks-boundary-prod-b",
        ]
    }


def test_an_account_of_one_environment_has_that_role_alone(made: Made) -> None:
    found = recorded(made.clients, preview=True, environments=("prod",))
    assert json.loads(found.exports["deployRoles"]).keys() == {"prod"}
    assert [one.name for one in found.of_type(POLICY) if one.name.startswith("boundary")] == ["boundary-prod"]


def test_roles_from_before_roles_had_a_path_are_named_to_the_role_of_their_environment(made: Made) -> None:
    tags = {"project": "triton-eks", "environment": "prod"}
    roles = (
        ("nodes-role-1234567", "/", tags),
        ("nodes-role-abcdef0", "/", {**tags, "environment": "dev"}),
        ("worker-role-pods-1234567", "/", tags),
        ("triton-prod-us-west-2-worker", "/", tags),
        ("worker-role-7654321", "/", {}),
        ("cluster-role-1234567", "/triton-eks/prod/", tags),
        ("administrator", "/", tags),
    )
    iam = made.clients("iam")
    try:
        for name, path, given in roles:
            named = [{"Key": key, "Value": value} for key, value in given.items()]
            iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=document(), Tags=named)
        found = recorded(made.clients, preview=True)
    finally:
        for name, _, _ in roles:
            iam.delete_role(RoleName=name)
    prod = statements(found.one(POLICY, "github-prod-deploy-older-roles").checked["policy"])
    arns = ["nodes-role-1234567", "triton-prod-us-west-2-worker", "worker-role-pods-1234567"]
    assert {tuple(one["Resource"]) for one in prod} == {tuple(f"arn:aws:iam::123456789012:role/{name}" for name in arns)}
    (passing,) = [
        one for one in statements(found.one(POLICY, "boundary-prod").checked["policy"]) if one["Action"] == ["iam:PassRole"]
    ]
    assert passing["Resource"] == [
        "arn:aws:iam::123456789012:role/triton-eks/prod/*",
        "arn:aws:iam::123456789012:role/nodes-role-1234567",
    ]
    assert "github-staging-deploy-older-roles" not in {one.name for one in found.of_type(POLICY)}


def test_who_deploys_reads_the_releases_of_the_accounts_that_are_named_and_nothing_else_of_them(made: Made) -> None:
    found = recorded(made.clients, preview=True, release_accounts=("222222222222",))
    added = {one.urn for one in found.registrations} - {one.urn for one in made.preview.registrations}
    assert {urn.rpartition("::")[2] for urn in added} == {"github-dev-deploy-promote-inline"}
    policy = found.one(INLINE, "github-dev-deploy-promote-inline")
    assert statements(policy.checked["policy"]) == [
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": ["arn:aws:s3:::triton-models-*-222222222222-*"],
            "Sid": "FindReleasesOfOthers",
            "Condition": {"StringEquals": {"aws:ResourceAccount": ["222222222222"]}},
        },
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject"],
            "Resource": ["arn:aws:s3:::triton-models-*-222222222222-*/releases/*"],
            "Sid": "ReadReleasesOfOthers",
            "Condition": {"StringEquals": {"aws:ResourceAccount": ["222222222222"]}},
        },
        {
            "Effect": "Allow",
            "Action": ["kms:Decrypt"],
            "Resource": ["arn:aws:kms:*:222222222222:key/*"],
            "Sid": "DecryptReleasesOfOthers",
            "Condition": {"StringLike": {"kms:ViaService": "s3.*"}},
        },
    ]


def test_an_accounts_existing_provider_is_used(made: Made) -> None:
    arn = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
    found = recorded(made.clients, preview=True, github_provider_arn=arn)
    assert found.of_type("aws:iam/openIdConnectProvider:OpenIdConnectProvider") == []
    (trust,) = statements(found.one(ROLE, "github-preview-role").checked["assumeRolePolicy"])
    assert trust["Principal"] == {"Federated": arn}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"clusters": ("*",)}, r"^clusters: '\*' is not the name of an EKS cluster; give names, without wildcards"),
        ({"release_accounts": ("*",)}, r"^releaseAccounts: '\*' is not the id of an AWS account; give its 12 digits"),
        ({"repository": ""}, "repository: '' is not a GitHub repository; give ORG/REPO"),
        ({"repository": "org@1/repo@2"}, "repository: 'org@1/repo@2' is not a GitHub repository; give ORG/REPO"),
        ({"repository": "org/repo", "repository_id": 2}, "^repositoryOwnerId: is missing beside the other number; `gh api"),
        ({"repository": "org/repo", "repository_owner_id": 1}, "^repositoryId: is missing beside the other number; `gh api"),
        (
            {"repository": "org/repo", "repository_owner_id": 0, "repository_id": 2},
            "^repositoryOwnerId: 0 is not a number of",
        ),
        (
            {"repository_owner_id": 1, "repository_id": 2},
            "^repositoryId: is of no repository; give repository, like ORG/REPO",
        ),
        ({"repository": "org/*"}, r"repository: 'org/\*' is not"),
        ({"repository": "org/repo", "branch": "*"}, r"branch: '\*' is not a branch"),
        ({"repository": "org/repo", "environments": ()}, "environments: is empty"),
        (
            {"repository": "org/repo", "github_provider_arn": "arn:aws:iam::1:oidc-provider/x"},
            "githubProviderArn: .* is not",
        ),
        (
            {"repository": "org/repo", "environments": ("prod", "qa")},
            "environments: 'qa' is not an environment of stacks; use",
        ),
        (
            {"stacks": (StackFacts("team", "dev", REGION), StackFacts("team-a", "prod", REGION))},
            r"^stacks: names of 'team' \(dev\) also match 'team-a' \(prod\); rename one, because",
        ),
        ({"repository": "org/repo", "regions": ("us-*",)}, r"regions: 'us-\*' is not a region with EKS; use af-south-1, "),
        ({"repository": "org/repo", "regions": ("us-east-1", "us-east-1")}, "regions: us-east-1 is listed twice"),
    ],
)
def test_a_trust_without_bounds_cannot_be_asked_for(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsInvalid, match=said):
        Settings(**wrong)


@pytest.mark.parametrize("written", ["1", '{"us-east-1": true}', "[1, 2]", "us-east-1"])
@pytest.mark.parametrize("key", ["environments", "regions", "clusters"])
def test_a_list_that_is_none_is_told(key: str, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = pulumi.Config
    monkeypatch.setattr(pulumi, "Config", lambda _name=None: named("bootstrap"))
    monkeypatch.setattr("pulumi.config.get_config", {f"bootstrap:{key}": written}.get)
    with pytest.raises(SettingsInvalid, match=rf"^{key}: .* is no list of names; give one like \[NAME\]$"):
        from_pulumi()


@pytest.mark.parametrize("written", ["[123456789012]", '["123456789012", 12345678]', "123456789012"])
def test_an_account_id_without_quotes_is_told_with_the_command_that_writes_it_as_text(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = pulumi.Config
    monkeypatch.setattr(pulumi, "Config", lambda _name=None: named("bootstrap"))
    monkeypatch.setattr("pulumi.config.get_config", {"bootstrap:releaseAccounts": written}.get)
    with pytest.raises(SettingsInvalid) as refused:
        from_pulumi()
    assert str(refused.value) == (
        "releaseAccounts: has an account id that is a number; give its 12 digits in quotes, like ['123456789012'], or with "
        "`pulumi config set --path --type string 'releaseAccounts[0]' 123456789012`"
    )


def test_elements_of_lists_are_set_as_text_by_the_commands_that_docs_give() -> None:
    """With --path Pulumi converts digits to a number, and keeps quotes inside of a value."""
    text = (ROOT / "docs" / "github.md").read_text(encoding="utf-8")
    commands = [shlex.split(line) for line in re.findall(r"pulumi config set [^`\n]*--path [^`\n]*", text)]
    assert {words[-2] for words in commands} == {
        "clusters[0]",
        "environments[0]",
        "hostedZones[0]",
        "regions[0]",
        "releaseAccounts[0]",
    }
    assert [words for words in commands if re.search("[\"']", words[-1])] == []
    assert [words for words in commands if words[-1].isdigit() and "string" not in words] == []
