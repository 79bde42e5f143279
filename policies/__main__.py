"""The policy pack's door: `pulumi preview --policy-pack policies`."""

from pulumi_policy import PolicyPack

from triton_policies.registry import POLICIES
from triton_policies.sdk import to_sdk

PolicyPack("triton-eks", policies=[to_sdk(policy) for policy in POLICIES])
