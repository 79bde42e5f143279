"""Cases of policies about IAM."""

import json
from typing import Any

from tests.policies.case import Case, fail
from triton_policies.identity import ACCESS_KEY, ATTACHMENTS, ROLE, ROLE_POLICY, USER

_ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/A"


def _policy(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", **statement}]})


def _trust(principal: Any, **condition: Any) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement | ({"Condition": condition} if condition else {})]})


_OIDC = {"Federated": f"arn:aws:iam::1:oidc-provider/{_ISSUER}"}
_SUB, _AUD = {f"{_ISSUER}:sub": "system:serviceaccount:triton:triton"}, {f"{_ISSUER}:aud": "sts.amazonaws.com"}
_FLOW_LOGS = {"Service": "vpc-flow-logs.amazonaws.com"}
_PODS = {"Service": "pods.eks.amazonaws.com"}
_NO_SOURCE = (
    "it: assumeRolePolicy.Statement[0].Principal: is vpc-flow-logs.amazonaws.com without a condition on aws:SourceAccount "
    "or aws:SourceArn: it may act for anyone who asks it to. Fix: compare aud and sub for OIDC, aws:SourceAccount for "
    "services, the pod's tags for EKS Pod Identity"
)

CASES = (
    Case(
        policy="iam-no-wildcard",
        type=ROLE_POLICY,
        passes={"policy": _policy(Action=["s3:GetObject", "ec2:Describe*"])},
        fails=(
            fail(
                {"policy": _policy(Action="*")},
                (
                    "it: policy.Statement[0].Action: is * on every resource: more than anything needs. "
                    "Fix: list the actions that are needed"
                ),
            ),
            fail(
                {"policy": _policy(Action=["s3:*", "sqs:*"], Resource="arn:aws:s3:::b")},
                (
                    "it: policy.Statement[0].Action: is s3:*, sqs:*: more than anything needs. "
                    "Fix: list the actions that are needed"
                ),
            ),
            fail(
                {"policy": _policy(NotAction="iam:*")},
                (
                    "it: policy.Statement[0].NotAction: allows all but what it names, and what AWS adds tomorrow. "
                    "Fix: list the actions that are needed"
                ),
            ),
            fail(
                {"policy": _policy(Action="*").replace('"Effect":', '"Effect": "Deny", "Effect":')},
                (
                    "it: policy: the key Effect is there twice in one object, and it is open which of them counts. "
                    "Fix: write it once"
                ),
            ),
        ),
        unknown="policy",
    ),
    Case(
        policy="iam-no-wildcard",
        type=ROLE,
        passes={"inlinePolicies": [{"policy": _policy(Action="s3:GetObject")}]},
        fails=(
            fail(
                {"inlinePolicies[0].policy": _policy(Action="iam:*")},
                (
                    "it: inlinePolicies[0].policy.Statement[0].Action: is iam:* on every resource: more than "
                    "anything needs. "
                    "Fix: list the actions that are needed"
                ),
            ),
        ),
        unknown="inlinePolicies[0].policy",
    ),
    Case(
        policy="other-accounts-named",
        type=ROLE,
        passes={"assumeRolePolicy": _trust(_OIDC, StringEquals={**_SUB, **_AUD})},
        fails=tuple(
            fail(
                {"assumeRolePolicy": document},
                "it: assumeRolePolicy.Statement[0].Principal: lets in 222222222222, which is neither an account of the "
                "stack nor in `accounts` of this policy. Fix: take the account out (models.readerAccounts), or have it "
                "approved in policies/config.json",
            )
            for document in (
                _trust({"AWS": "arn:aws:iam::222222222222:root"}),
                _trust({"AWS": ["arn:aws:iam::123456789012:root", "222222222222"]}),
                _trust({"Service": "ec2.amazonaws.com"}, StringEquals={"aws:SourceAccount": "222222222222"}),
                _trust("*", ArnLike={"aws:PrincipalArn": "arn:aws:iam::222222222222:role/*"}),
            )
        )
        + tuple(
            fail(
                {"assumeRolePolicy": document},
                "it: assumeRolePolicy.Statement[0].Principal: lets in whoever its conditions fit, and they name no account: "
                "compare aws:PrincipalAccount. Fix: take the account out (models.readerAccounts), or have it approved in "
                "policies/config.json",
            )
            for document in (
                _trust("*", StringEquals={"aws:PrincipalOrgID": "o-a1b2c3d4e5"}),
                _trust({"AWS": "*"}, ArnLike={"aws:PrincipalArn": "arn:aws:iam::*:role/reader"}),
            )
        ),
        unknown="assumeRolePolicy",
    ),
    Case(
        policy="other-accounts-named",
        type="aws:eks/accessEntry:AccessEntry",
        passes={"principalArn": "arn:aws:iam::123456789012:role/teams/platform-admin"},
        fails=(
            fail(
                {"principalArn": "arn:aws:iam::222222222222:role/platform-admin"},
                "it: principalArn: is of the account 222222222222, which is neither an account of the stack nor in "
                "`accounts` of this policy. Fix: take the account out (models.readerAccounts), or have it approved in "
                "policies/config.json",
            ),
        ),
        unknown="principalArn",
    ),
    Case(
        policy="other-accounts-named",
        type="aws:kms/key:Key",
        passes={"policy": _policy(Principal={"AWS": "arn:aws:iam::222222222222:root"}, Action="kms:Decrypt")},
        fails=(
            fail(
                {"policy": _policy(Principal={"AWS": "arn:aws:iam::333333333333:root"}, Action="kms:Decrypt")},
                "it: policy.Statement[0].Principal: lets in 333333333333, which is neither an account of the stack nor in "
                "`accounts` of this policy. Fix: take the account out (models.readerAccounts), or have it approved in "
                "policies/config.json",
            ),
        ),
        unknown="policy",
        config={"accounts": ["222222222222"]},
    ),
    Case(
        policy="other-accounts-named",
        type="aws:s3/bucketPolicy:BucketPolicy",
        passes={"policy": _policy(Principal={"AWS": "arn:aws:iam::222222222222:root"})},
        fails=(),
        unknown="policy",
        needs_no_value=True,
        accounts=(),
    ),
    Case(
        policy="iam-trust-bounded",
        type=ROLE,
        passes={"assumeRolePolicy": _trust(_OIDC, StringEquals={**_SUB, **_AUD})},
        fails=(
            fail(
                {"assumeRolePolicy": _trust("*")},
                ("it: assumeRolePolicy.Statement[0].Principal: is *: any AWS account may take the role. Fix: name who may"),
            ),
            fail(
                {"assumeRolePolicy": _trust({"AWS": "*"})},
                ("it: assumeRolePolicy.Statement[0].Principal: is *: any AWS account may take the role. Fix: name who may"),
            ),
            fail(
                {"assumeRolePolicy": _trust(_OIDC)},
                (
                    "it: assumeRolePolicy.Statement[0].Condition: does not compare aud: a token that was made for "
                    "anything else is taken too. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
                (
                    "it: assumeRolePolicy.Statement[0].Condition: does not compare sub: every pod of the cluster "
                    "may take the role. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
            ),
            fail(
                {"assumeRolePolicy": _trust(_OIDC, StringEquals=_SUB)},
                (
                    "it: assumeRolePolicy.Statement[0].Condition: does not compare aud: a token that was made for "
                    "anything else is taken too. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
            ),
            fail(
                {"assumeRolePolicy": _trust(_OIDC, StringEquals=_AUD)},
                (
                    "it: assumeRolePolicy.Statement[0].Condition: does not compare sub: every pod of the cluster "
                    "may take the role. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
            ),
            fail(
                {
                    "assumeRolePolicy": _trust(
                        _OIDC, StringEquals=_AUD, StringLike={f"{_ISSUER}:sub": "system:serviceaccount:*:triton"}
                    )
                },
                (
                    "it: assumeRolePolicy.Statement[0].Condition: compares sub with system:serviceaccount:*:triton: "
                    "service accounts of other namespaces match too. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
            ),
            # Any GitHub repository.
            fail(
                {"assumeRolePolicy": _trust(_OIDC, StringEquals=_AUD, StringLike={f"{_ISSUER}:sub": "repo:*"})},
                (
                    "it: assumeRolePolicy.Statement[0].Condition: compares sub with repo:*: other repositories or "
                    "namespaces match too. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
            ),
            # Without the key the comparison holds.
            fail(
                {"assumeRolePolicy": _trust(_FLOW_LOGS, StringEqualsIfExists={"aws:SourceAccount": "123456789012"})},
                _NO_SOURCE,
            ),
            fail({"assumeRolePolicy": _trust(_FLOW_LOGS, StringLike={"aws:SourceArn": "arn:*"})}, _NO_SOURCE),
            fail({"assumeRolePolicy": _trust(_FLOW_LOGS, Null={"aws:SourceArn": "false"})}, _NO_SOURCE),
            fail(
                {"assumeRolePolicy": _trust(_FLOW_LOGS)},
                (
                    "it: assumeRolePolicy.Statement[0].Principal: is vpc-flow-logs.amazonaws.com without a "
                    "condition on aws:SourceAccount or aws:SourceArn: it may act for anyone who asks it to. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
            ),
            fail(
                {"assumeRolePolicy": _trust(_PODS, StringEquals={"aws:RequestTag/eks-cluster-arn": "a"})},
                (
                    "it: assumeRolePolicy.Statement[0].Principal: is pods.eks.amazonaws.com without a condition on "
                    "aws:RequestTag/kubernetes-namespace and aws:RequestTag/kubernetes-service-account: it may act "
                    "for anyone who asks it to. "
                    "Fix: compare aud and sub for OIDC, aws:SourceAccount for services, the pod's tags for EKS Pod "
                    "Identity"
                ),
            ),
        ),
        unknown="assumeRolePolicy",
    ),
    Case(
        policy="iam-trust-bounded",
        type=ROLE,
        passes={
            "assumeRolePolicy": _trust(
                _OIDC, StringEquals=_AUD, StringLike={f"{_ISSUER}:sub": "repo:me/it:ref:refs/heads/*"}
            )
        },
        fails=(),
        unknown=None,
    ),
    Case(
        policy="iam-trust-bounded",
        type=ROLE,
        passes={"assumeRolePolicy": _trust({"Service": "ec2.amazonaws.com"})},
        fails=(),
        unknown=None,
    ),
    Case(
        policy="iam-trust-bounded",
        type=ROLE,
        passes={"assumeRolePolicy": _trust(_FLOW_LOGS, StringEquals={"aws:SourceAccount": "123456789012"})},
        fails=(),
        unknown=None,
    ),
    Case(
        policy="iam-no-admin-policy",
        type=ATTACHMENTS[0],
        passes={"policyArn": "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"},
        fails=(
            fail(
                {"policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"},
                (
                    "it: policyArn: is AdministratorAccess: whoever gets hold of it owns the account. "
                    "Fix: attach a policy with the actions that are needed"
                ),
            ),
        ),
        unknown="policyArn",
    ),
    Case(
        policy="iam-no-admin-policy",
        type=ROLE,
        passes={"managedPolicyArns": ["arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"]},
        fails=(
            fail(
                {"managedPolicyArns": ["arn:aws:iam::aws:policy/PowerUserAccess"]},
                (
                    "it: managedPolicyArns[0]: is PowerUserAccess: whoever gets hold of it owns the account. "
                    "Fix: attach a policy with the actions that are needed"
                ),
            ),
        ),
        unknown="managedPolicyArns[0]",
    ),
    Case(
        policy="iam-managed-policy-current",
        type=ATTACHMENTS[0],
        passes={"policyArn": "arn:aws:iam::aws:policy/AmazonEBSCSIDriverEKSClusterScopedPolicy"},
        fails=(
            fail(
                {"policyArn": "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"},
                (
                    "it: policyArn: is AmazonEBSCSIDriverPolicy, which AWS has superseded. "
                    "Fix: attach AmazonEBSCSIDriverEKSClusterScopedPolicy or AmazonEBSCSIDriverPolicyV2"
                ),
            ),
        ),
        unknown="policyArn",
    ),
    Case(
        policy="iam-managed-policy-current",
        type=ROLE,
        passes={"managedPolicyArns": ["arn:aws-cn:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly"]},
        fails=(
            fail(
                {"managedPolicyArns": ["arn:aws-cn:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly"]},
                (
                    "it: managedPolicyArns[0]: is AmazonEC2ContainerRegistryReadOnly, which AWS has superseded. "
                    "Fix: attach AmazonEC2ContainerRegistryPullOnly"
                ),
            ),
        ),
        unknown="managedPolicyArns[0]",
    ),
    Case(
        policy="iam-no-static-keys",
        type=ROLE,
        passes={},
        fails=(
            fail(
                {},
                (
                    "it: is an access key: its keys are valid until somebody finds them. "
                    "Fix: use IRSA or EKS Pod Identity for pods, OIDC for pipelines"
                ),
                type=ACCESS_KEY,
            ),
            fail(
                {},
                (
                    "it: is an IAM user: its keys are valid until somebody finds them. "
                    "Fix: use IRSA or EKS Pod Identity for pods, OIDC for pipelines"
                ),
                type=USER,
            ),
        ),
        unknown=None,
    ),
)
