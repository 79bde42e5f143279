"""Rules about IAM: permissions and trust of roles, and static keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triton_policies.documents import Statement, statements
from triton_policies.findings import Finding, Violation, each
from triton_policies.policy import Policy, ResourcePolicy, Settings, strings
from triton_policies.reading import Property
from triton_policies.resources import Resource

ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
POLICY = "aws:iam/policy:Policy"
USER_POLICY = "aws:iam/userPolicy:UserPolicy"
GROUP_POLICY = "aws:iam/groupPolicy:GroupPolicy"
ATTACHMENTS = (
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "aws:iam/userPolicyAttachment:UserPolicyAttachment",
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment",
    "aws:iam/policyAttachment:PolicyAttachment",
)
ACCESS_KEY = "aws:iam/accessKey:AccessKey"
USER = "aws:iam/user:User"

ACCESS_ENTRY = "aws:eks/accessEntry:AccessEntry"
_UNKNOWN = "which is neither an account of the stack nor in `accounts` of this policy"

ADMINISTRATORS = ("AdministratorAccess", "PowerUserAccess", "IAMFullAccess")
SUPERSEDED = {
    "AWSXrayWriteOnlyAccess": "AWSXRayDaemonWriteAccess",
    "AmazonEBSCSIDriverPolicy": "AmazonEBSCSIDriverEKSClusterScopedPolicy or AmazonEBSCSIDriverPolicyV2",
    "AmazonEC2ContainerRegistryReadOnly": "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEC2RoleforSSM": "AmazonSSMManagedInstanceCore",
    "AmazonEKSServicePolicy": "AmazonEKSClusterPolicy",
}
"""Managed policies for which AWS recommends a narrower or newer one."""
_WITHOUT_SOURCE = ("ec2.amazonaws.com", "ec2.amazonaws.com.cn")
"""Services that send no aws:SourceAccount when they assume a role. A condition on it would deny them."""
_POD_IDENTITY = "pods.eks.amazonaws.com"
_SUBJECT_PATTERN = re.compile(r"system:serviceaccount:[^:*?]+:[^:]+|(?!system:)[^:*?]+:[^:*?]+:.+")
"""Patterns of `sub` with a namespace or, for pipeline tokens, a repository: `repo:owner/name:ref:refs/heads/*`."""
_POD_TAGS = ("aws:requesttag/kubernetes-namespace", "aws:requesttag/kubernetes-service-account")


def _wildcards(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == ROLE:
        documents = [one["policy"] for one in resource["inlinePolicies"].elements]
    else:
        documents = [resource["policy"]]
    yield from each(documents, _wild_statements)


def _wild_statements(document: Property) -> Iterator[Finding]:
    for statement in statements(document):
        if not statement.allows:
            continue
        for key in ("NotAction", "NotResource"):
            if statement.at[key].given:
                yield Violation(statement.at[key].path, "allows all but what it names, and what AWS adds tomorrow")
        wild = [action for action in statement.actions if action == "*" or action.endswith(":*")]
        if wild:
            everything = "*" in statement.resources
            yield Violation(
                statement.at["Action"].path,
                f"is {', '.join(wild)}{' on every resource' if everything else ''}: more than anything needs",
            )


def _trust(role: Resource, settings: Settings) -> Iterator[Finding]:
    document = role["assumeRolePolicy"]
    for statement in statements(document):
        if statement.allows:
            yield from _bounds(statement)


def _bounds(statement: Statement) -> Iterator[Finding]:
    at = statement.at["Principal"].path
    if statement.everybody or statement.at["NotPrincipal"].given:
        problem = f"{statement.anyone}: any AWS account may take the role"
        yield Violation(statement.principal_path, problem, fix="name who may")
    if "Federated" in statement.principals:
        yield from _oidc_bounds(statement)
    for service in statement.principals.get("Service", ()):
        if service in _WITHOUT_SOURCE:
            continue
        if service == _POD_IDENTITY:
            bounded = all(statement.values(tag, "StringEquals") for tag in _POD_TAGS)
            wanted = "aws:RequestTag/kubernetes-namespace and aws:RequestTag/kubernetes-service-account"
        else:
            bounded = statement.bounded_by("aws:SourceAccount") or statement.bounded_by("aws:SourceArn")
            wanted = "aws:SourceAccount or aws:SourceArn"
        if not bounded:
            yield Violation(at, f"is {service} without a condition on {wanted}: it may act for anyone who asks it to")


def _oidc_bounds(statement: Statement) -> Iterator[Finding]:
    condition = statement.at["Condition"].path
    subjects = [
        value for key in statement.compared if key.endswith(":sub") for value in statement.values(key, "StringEquals")
    ]
    patterns = [value for key in statement.compared if key.endswith(":sub") for value in statement.values(key, "StringLike")]
    audiences = [
        value for key in statement.compared if key.endswith(":aud") for value in statement.values(key, "StringEquals")
    ]
    if not audiences:
        yield Violation(condition, "does not compare aud: a token that was made for anything else is taken too")
    if not subjects and not patterns:
        yield Violation(condition, "does not compare sub: every pod of the cluster may take the role")
    for pattern in patterns:
        if _SUBJECT_PATTERN.fullmatch(pattern) is None:
            of_pods = "serviceaccount" in pattern
            others = "service accounts of other namespaces" if of_pods else "other repositories or namespaces"
            yield Violation(condition, f"compares sub with {pattern}: {others} match too")


def _foreign(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if not resource.accounts:
        return  # the stack's own accounts are unknown
    known = resource.accounts | set(settings["accounts"])
    if resource.type == ACCESS_ENTRY:
        principal = resource["principalArn"]
        account = str(principal.value).split(":")[4:5]
        if not known.issuperset(account):
            yield Violation(principal.path, f"is of the account {account[0]}, {_UNKNOWN}")
        return
    for statement in statements(resource["assumeRolePolicy" if resource.type == ROLE else "policy"]):
        if statement.allows and statement.everybody and not statement.public and not statement.accounts:
            # Unlimited access is covered by the rules about public access.
            yield Violation(
                statement.principal_path,
                "lets in whoever its conditions fit, and they name no account: compare aws:PrincipalAccount",
            )
        if statement.allows and (others := statement.accounts - known):
            yield Violation(
                statement.principal_path,
                f"lets in {', '.join(sorted(others))}, {_UNKNOWN}",
            )


def _managed(resource: Resource, settings: Settings) -> Iterator[Finding]:
    def check(one: Property) -> Iterator[Finding]:
        name = _policy_name(one)
        if name in ADMINISTRATORS:
            yield Violation(one.path, f"is {name}: whoever gets hold of it owns the account")

    yield from each(_managed_policy_arns(resource), check)


def _superseded(resource: Resource, settings: Settings) -> Iterator[Finding]:
    def check(one: Property) -> Iterator[Finding]:
        name = _policy_name(one)
        if name in SUPERSEDED:
            yield Violation(one.path, f"is {name}, which AWS has superseded", fix=f"attach {SUPERSEDED[name]}")

    yield from each(_managed_policy_arns(resource), check)


def _managed_policy_arns(resource: Resource) -> list[Property]:
    return list(resource["managedPolicyArns"].elements) if resource.type == ROLE else [resource["policyArn"]]


def _policy_name(arn: Property) -> str:
    return str(arn.value).rpartition("/")[2]


def _static_keys(resource: Resource, settings: Settings) -> Iterator[Finding]:
    kind = "an access key" if resource.type == ACCESS_KEY else "an IAM user"
    yield Violation("", f"is {kind}: its keys are valid until somebody finds them")


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="iam-no-wildcard",
        says="What a role may do is a list of actions, never all of a service's.",
        severity="critical",
        controls=("FSBP IAM.1", "FSBP IAM.21"),
        fix="list the actions that are needed",
        types=(ROLE, ROLE_POLICY, POLICY, USER_POLICY, GROUP_POLICY),
        judge=_wildcards,
    ),
    ResourcePolicy(
        id="iam-trust-bounded",
        says="A role is taken by one service account or for one account's resources, and by nobody else.",
        severity="critical",
        controls=("CIS EKS 5.2.1",),
        fix="compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod Identity",
        types=(ROLE,),
        judge=_trust,
    ),
    ResourcePolicy(
        id="other-accounts-named",
        says="Roles, keys, buckets, queues and clusters let in no other AWS account but those that are named for it.",
        severity="critical",
        controls=("FSBP S3.6",),
        fix="take the account out (models.readerAccounts), or have it approved in policies/config.json",
        settings={
            "accounts": strings("AWS accounts beside the stack's own (`aws:allowedAccountIds`) that may be let in", [])
        },
        types=(ROLE, ACCESS_ENTRY, "aws:kms/key:Key", "aws:s3/bucketPolicy:BucketPolicy", "aws:sqs/queuePolicy:QueuePolicy"),
        judge=_foreign,
    ),
    ResourcePolicy(
        id="iam-no-admin-policy",
        says="Nothing is an administrator of the account.",
        severity="critical",
        controls=("FSBP IAM.1",),
        fix="attach a policy with the actions that are needed",
        types=(ROLE, *ATTACHMENTS),
        judge=_managed,
    ),
    ResourcePolicy(
        id="iam-managed-policy-current",
        says="No role has an AWS managed policy that AWS has superseded by a narrower or newer one.",
        severity="medium",
        controls=(),
        fix="attach its successor",
        types=(ROLE, *ATTACHMENTS),
        judge=_superseded,
    ),
    ResourcePolicy(
        id="iam-no-static-keys",
        says="There are no IAM users and no access keys: workloads take roles.",
        severity="critical",
        controls=("FSBP IAM.3", "CIS EKS 5.2.1"),
        fix="use IRSA or EKS Pod Identity for pods, OIDC for pipelines",
        types=(ACCESS_KEY, USER),
        judge=_static_keys,
    ),
)
