"""Assign each check to its claim. `untried` lists the claims without a check, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stackctl.certify.checks import account, nodes, platform, run, serving
from stackctl.certify.outcome import Outcome
from stackctl.certify.subject import Subject

Check = Callable[[Subject], Outcome]

STANDING: Mapping[str, Check] = {
    "AWS resources are created, read, updated and deleted": run.nothing_has_drifted,
    "EKS rules: add-ons, access entries, deletion protection": account.add_ons_and_access_entries,
    "every IAM document has known actions and resources, and restricts its trust": account.iam_documents,
    "IRSA: exactly one service account may read exactly the releases": account.reader_reads_releases_alone,
    "only `apiAccess` reaches the API server": account.who_reaches_the_api_server,
    "every pod fits its nodes; in staging and prod with one zone lost": nodes.every_pod_has_room,
    "container logs go to one encrypted group; the sender may do nothing else": account.logs_arrive,
    "nodes join with the declared labels, taints and GPUs": nodes.as_declared,
    "Karpenter starts and terminates nodes": nodes.started_by_an_autoscaler,
    "GPU sharing and MIG": nodes.share_their_gpus,
    "Mountpoint and FSx for Lustre": serving.models_are_mounted,
    "preflight reports what an account lacks, and only reads": run.preflight_was_right,
    "monthly cost of an environment": account.prices,
    "AWS offers each VPC endpoint's service in the stack's zones": account.endpoints_are_available,
    "the workflows' roles allow every call of a stack, and of its preview": run.deploy_role_suffices,
    "Triton starts with the rendered arguments and becomes ready": serving.triton_is_ready,
    "Triton reads one release from S3": serving.first_inference,
    "monitors and rules select our pods": platform.monitoring_runs,
    "pods have one autoscaler, and scale on queue and busy instances": platform.one_autoscaler_owns_the_pods,
    "requests reach Triton through the gateway, over HTTP and gRPC, with limits, timeouts and TLS": platform.gateway,
    "the AWS Load Balancer Controller's permissions suffice": platform.load_balancer,
    "NetworkPolicy, PodDisruptionBudget, security contexts": serving.disruption_budget,
    "GPU profiling counters are exported next to EKS's node monitoring agent": platform.profiling_counters,
    # The last check, because it may wait for a day.
    "a budget counts its stack's cost": account.budget_counts,
}
"""Checks while the stack is up, by the claim's text on the page."""

GONE: Mapping[str, Check] = {
    "the commands of [going to AWS](aws.md) lead from an empty account to an answer, and back": (
        run.from_nothing_to_an_answer_and_back
    ),
    "teardown follows the right order; `orphans` lists everything left, and nothing of others": run.nothing_is_left,
}
"""Checks after the teardown, by the claim's text."""
