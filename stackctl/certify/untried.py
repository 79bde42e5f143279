"""List the claims that `stackctl certify` does not check, each with the reason.

A report contains every claim of the page.
"""

from __future__ import annotations

from collections.abc import Mapping

OFFLINE = "it is about this repository's files: `make test` shows the same here"
_DISRUPTIVE = "it needs a load and a fault: try it by hand on a stack that may fail"
_PREVIEWS = "it is about previews, which need no account"
_GITHUB = "it needs a GitHub repository whose workflows assume the roles"
_BEFORE = "it happens before a run begins"
_TUNNEL = "a run works without it: start one with `stackctl tunnel STACK -- stackctl certify STACK`"
_MODELS = "it needs models other than `make models`': release yours and send them requests"
_BY_HAND = "`stackctl cold-start STACK --measured` reports it for a running stack"
_CLIENTS = "it needs clients inside the VPC during the measurement"

UNTRIED: Mapping[str, str] = {
    "every mistake in a stack file is reported at once, before a resource exists": OFFLINE,
    "`preview` and `up` register the same resources": _PREVIEWS,
    "a preview needs no credentials and no account": _PREVIEWS,
    "a preview shows a changed value as that field of that Deployment": _PREVIEWS,
    "every stack complies with every [policy](policies.md), and each policy detects its defect": OFFLINE,
    "a pull request's comment reports changes, downtime, policies, cost and scaling under load": _PREVIEWS,
    "every command ends with a sentence and a documented exit code, also in broken environments": (
        "a run cannot create these environments"
    ),
    "fleets of `stackctl plan` meet the requirements; no cheaper plan has one fleet per model": (
        "it needs measured rates on GPUs: `modelctl tune` measures them"
    ),
    "`stackctl init` writes a valid stack file that matches the account": _BEFORE,
    "AWS credentials of every kind work, or the command says what to do": _BEFORE,
    "`make state` creates the state bucket, and resumes after an interruption": _BEFORE,
    "`stackctl image` finds a release's digest; `--mirror` copies the image, resumes, and overwrites nothing": _BEFORE,
    "`stackctl push-images` copies modelctl's and the worker's images to ECR and pins them": _BEFORE,
    "stacks of one environment share no name in any region; ARNs and hosts have the region's partition": (
        "it needs two stacks"
    ),
    "policies apply by a stack's properties, whatever its name": OFFLINE,
    "a first preview, without a kubeconfig, violates no mandatory policy": _PREVIEWS,
    "the twin's `eks.Cluster` has the official component's children, inputs and dependencies": "it is about the twin",
    "a half-created node group or add-on is [reported with cause and repair](runbooks/NodeGroupCreateFailed.md)": (
        "it needs a node group that EC2 cannot start"
    ),
    "stacks come up while IAM and Pod Identity lag 15 s, KMS tags and aliases a minute": (
        "AWS's delays cannot be chosen; a successful run has met one"
    ),
    "an IAM principal has its access entry's permissions in the cluster, and none without one": (
        "it needs several principals of the account"
    ),
    "commands reach pods by port forward; a lost forward never counts against a model": _DISRUPTIVE,
    "`promote` copies a release into all buckets, or none after a mistake": "it needs several stacks",
    "only releases [signed](serving.md#signed-releases) by the stack's signers are served, promoted or pinned": (
        "it needs an attacker with write access to the bucket"
    ),
    "every command tells releases with similar ids apart; no object of a release is overwritten": (
        "it needs an attacker with write access to the bucket"
    ),
    "the deployment equals the preview that was approved": _GITHUB,
    "Container Insights: group with key and retention, minimal agent permissions, room for pods": (
        "it costs money per observation, and no shipped stack enables it"
    ),
    "nodes pull images in parallel": "it needs two starts of a node, with and without the setting",
    "[an existing VPC or cluster](existing.md) is used, never changed, and kept at teardown": (
        "it needs an existing VPC or cluster to compare before and after"
    ),
    "programs reach a private API server through `stackctl tunnel`": _TUNNEL,
    "the gateway refuses unknown, unauthorized and too frequent clients; keys come from Secrets Manager": (
        "it needs a hosted zone, and clients inside the VPC"
    ),
    "with `gateway.imageRegistry` no Envoy image comes from Docker Hub": (
        "it needs a pull-through cache of Docker Hub in ECR"
    ),
    "`stackctl certify` creates a stack, checks each claim of this page, and always deletes the stack": (
        "this command is the claim"
    ),
    "a GitHub runner in the VPC reaches the API server, and may not deploy by itself": _GITHUB,
    "workflows and their roles": _GITHUB,
    "no output, log or command line shows a secret": "it needs a person who reads state, logs and command lines",
    "`cold-start` reports where a start's time goes, per fleet and from running pods": _BY_HAND,
    "a fleet scales from zero on a message or a request, and back after the last answer": (
        "it needs a fleet with `minReplicas: 0`, and the time until its last pod is removed"
    ),
    "rules of 100 models fit prometheus-operator's limit of 512 KiB per object": "it needs a hundred models",
    "cluster-autoscaler starts nodes": "no node records whether cluster-autoscaler started it",
    "broken nodes are replaced": "it needs a broken node, and half an hour for its replacement",
    "protected resources cannot be deleted without the flag": "a run deletes its stack, so the stack has the flag",
    "an upgrade reports beforehand which resources it replaces or deletes": "it needs a stack of an earlier release",
    "a rehearsal reports a change's replacements, losses and interruptions from the exported state": _PREVIEWS,
    "moving to another GPU pool loses no request": _DISRUPTIVE,
    "a new Kubernetes version loses no request": _DISRUPTIVE,
    "generated model configurations are valid and load": (
        "a ready Triton shows it for the released models; others need your models"
    ),
    "the GPU memory budget of a pod": "it needs each model on its own GPU, with its largest request",
    "no accepted request is lost when a pod drains": _DISRUPTIVE,
    "a rolling update under load fails no request": _DISRUPTIVE,
    "a stack may have several [fleets](fleets.md); moving a model between them loses no request": _DISRUPTIVE,
    "an in-place rollout under load fails no request and mixes no versions": _DISRUPTIVE,
    "with `access: local` an in-place rollout under load fails no request": _DISRUPTIVE,
    "after an `up` that timed out, the next one waits again and repairs it": "it needs an `up` that fails",
    "a [blue-green](blue-green.md) release passes golden inferences, gets traffic by steps, and rolls back if bad": (
        _DISRUPTIVE
    ),
    "a release is checked by [copies of live requests](blue-green.md#copies-of-requests) before clients get its answers": (
        "it needs gateway clients and twice the pods"
    ),
    "a candidate whose [answers differ](blue-green.md#answers-of-live-requests) is rolled back before a client gets one": (
        "it needs gateway clients, twice the pods, and a release with different answers"
    ),
    "a killed or concurrent rollout ends consistently": _DISRUPTIVE,
    "a killed, silent or missing part loses no accepted request, and recovers in a stated time": _DISRUPTIVE,
    "tuned values meet an SLO at a higher rate than no batching": _CLIENTS,
    "clients: deadlines, retries, balancing, sequences, streams": _CLIENTS,
    "a client in the server's pod passes tensors in shared memory, behind the admin API's key": _CLIENTS,
    "a queued request is answered once, whatever is killed; bad messages reach the dead-letter queue": _DISRUPTIVE,
    "[unmodified clients](traffic.md#unmodified-clients) work; the rest of Triton stays closed": _CLIENTS,
    "a ready pod whose model fails every request is ejected for a while": _DISRUPTIVE,
    "alerts and recording rules": "an alert needs a fault, and Prometheus answers only inside the cluster",
    "the metrics in rules and dashboards exist": "Prometheus answers only inside the cluster",
    "`modelctl parity` and alerts report pods that serve other models or versions than the rest": (
        "it needs pods that differ"
    ),
    "the repository [builds](images.md) its images: two builds have one digest, Python is the only program": (
        "it needs no account: `make e2e-slow GROUP=images`"
    ),
    "pods follow a load": _CLIENTS,
    "no pod is removed while Prometheus is down": _DISRUPTIVE,
    "slow and refused requests keep their traces": _CLIENTS,
    "language models scale and alert on their backend's metrics, and their memory counts": _MODELS,
    "a release and a preview refuse a plan that the server's TensorRT cannot load": _MODELS,
    "a vLLM model is released from NVIDIA's sample config, streams, and exports the metrics used": _MODELS,
    "clients of OpenAI's API reach language models at pods and gateway": _MODELS,
    "a Job per GPU type builds a plan of a released model, and the next release takes it": _MODELS,
    "NVIDIA's vLLM and TensorRT-LLM configs and custom backends are released; errors that stop an engine are reported": (
        _MODELS
    ),
    "a verified release is on disk before the server starts; a killed fetch resumes; a wrong file is named": _DISRUPTIVE,
    "pods of a node download a release once, and serve from their own copies": "it needs a second pod on the same node",
    'an ONNX model with `backend: "onnxruntime"` is served on the twin by its GPU config': "it is about the twin",
    "the pinned release's real ONNX models answer as their packages do": (
        "a run sends one request to one model; `modelctl watch` sends more"
    ),
    "`release` refuses wrong configs, damaged or missing files and unsupported operator sets before any upload": (
        "it needs such files at NVIDIA's backend, and the release refuses them"
    ),
    "[your ONNX model](your-model.md), from a file to an answer": _MODELS,
    "a transformer, a detector and a three-step pipeline reach answers with four keys per model": _MODELS,
    "a busy pod with many models under a CPU quota stays ready": _DISRUPTIVE,
    "ONNX models through TensorRT have a profile for batches of 1 to the maximum": _MODELS,
    "`modelctl import` turns an ONNX file or an MLflow model into a releasable model": (
        "it needs an MLflow server: import a model from it and release it"
    ),
    "a Python model finds its packed packages": _MODELS,
    "the canary gate detects bad releases and rolls back few good ones": _DISRUPTIVE,
    "replayed requests get the old version's answers, or the rollout is rolled back": _DISRUPTIVE,
    "`modelctl watch` detects a wrong or failing release, and pins the previous one": _DISRUPTIVE,
    "replacing all Triton pods, or an Envoy, fails no request; new pods warm up slowly": _DISRUPTIVE,
    "additions to Triton's pod are valid, counted and restricted": "it needs a stack with such an addition, like EFA",
    "`twin replay` predicts latency and cost of changed scaling, pools or models": (
        "it needs a recorded load of hours and its cost: pass the recording to `twin replay`"
    ),
}
"""By the text of the claim on the page."""
