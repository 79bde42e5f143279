"""Say which claim each check is of. A claim that no check tries is in `untried`, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stackctl.certify.checks import account, nodes, platform, run, serving
from stackctl.certify.outcome import Outcome
from stackctl.certify.subject import Subject

Check = Callable[[Subject], Outcome]

STANDING: Mapping[str, Check] = {
    "VPC, IAM, KMS, S3, node groups and the rest are created, read, updated and deleted": run.nothing_has_drifted,
    "rules of EKS: add-ons, access entries, deletion protection": account.add_ons_and_access_entries,
    "every IAM document names known actions and resources, and bounds its trust": account.iam_documents,
    "IRSA: exactly one service account may read exactly the releases": account.reader_reads_releases_alone,
    "who is named in `apiAccess` is let in, and nobody of the internet": account.who_reaches_the_api_server,
    "every pod of a stack has room on its nodes, in staging and prod with a zone lost": nodes.every_pod_has_room,
    "logs of containers go to one encrypted group, and its sender may do nothing else": account.logs_arrive,
    "nodes join with the declared labels, taints and GPUs": nodes.as_declared,
    "nodes are started and ended by Karpenter": nodes.started_by_an_autoscaler,
    "GPU sharing and MIG": nodes.share_their_gpus,
    "Mountpoint and FSx for Lustre": serving.models_are_mounted,
    "preflight finds what an account lacks, and can only read": run.preflight_was_right,
    "what an environment costs": account.prices,
    "each VPC endpoint is of a service that AWS offers in the stack's zones": account.endpoints_are_available,
    "the workflows' roles may make every call that a stack takes, and read it in a preview": run.deploy_role_suffices,
    "Triton starts with the rendered arguments and becomes ready": serving.triton_is_ready,
    "Triton reads one release from S3": serving.first_inference,
    "monitors and rules select our pods": platform.monitoring_runs,
    "pods have one owner, and scale on queue and busy instances": platform.one_autoscaler_owns_the_pods,
    "requests reach Triton through the gateway: inference and read-only calls, over HTTP and gRPC, limited, with timeouts, "
    "sequences, streams and TLS in Envoy": platform.gateway,
    "the AWS Load Balancer Controller's rights suffice": platform.load_balancer,
    "NetworkPolicy, PodDisruptionBudget, security contexts": serving.disruption_budget,
    "GPUs' profiling counters are exported next to EKS's node monitoring agent": platform.profiling_counters,
    # The last one, as it may wait for a day.
    "a budget counts what its stack costs": account.budget_counts,
}
"""By the words of the claim on the page: what is tried while the stack stands."""

GONE: Mapping[str, Check] = {
    "the commands of [going to AWS](aws.md) lead from an empty account to an answer, and back to an empty account": (
        run.from_nothing_to_an_answer_and_back
    ),
    "teardown goes in order; orphans lists all that is left, and nothing of others": run.nothing_is_left,
}
"""By the words of the claim, too, the checks after the teardown."""
