"""The policy pack's door: `pulumi preview --policy-pack policies`."""

from pulumi_policy import PolicyPack

from triton_policies.engine import listen
from triton_policies.registry import POLICIES
from triton_policies.run import Run
from triton_policies.sdk import judged_at_up, settings_known, to_sdk

_run = Run()
listen(_run)
PolicyPack("triton-eks", policies=[*(to_sdk(policy, _run) for policy in POLICIES), settings_known(_run), judged_at_up(_run)])
