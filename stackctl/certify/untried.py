"""The claims that `stackctl certify` does not try, each with the reason: a report names every claim of the page."""

from __future__ import annotations

from collections.abc import Mapping

OFFLINE = "it is about this repository's files, so that `make test` shows as much here as anywhere"
_DISRUPTIVE = "it needs a load, and something broken under it: try it by hand, on a stack that may fail"
_PREVIEWS = "it is about previews, which are made before an account is there"
_GITHUB = "it needs a repository on GitHub whose workflows take the roles"
_BEFORE = "it is done before a run begins"
_TUNNEL = "a run does not need it: begin one through it, `stackctl tunnel STACK -- stackctl certify STACK`"
_MODELS = "it needs other models than those of `make models`: release yours, and ask them"
_BY_HAND = "`stackctl cold-start STACK --measured` tells it of a stack that is up"
_HARM = "it needs somebody who may write to the bucket and means harm"
_CLIENTS = "it needs clients inside the VPC for as long as the measurement takes"

UNTRIED: Mapping[str, str] = {
    "every mistake in a stack file is reported at once, before a resource exists": OFFLINE,
    "`preview` and `up` register the same resources": _PREVIEWS,
    "a preview needs no credentials and no account": _PREVIEWS,
    "a changed value shows as that field of that Deployment": _PREVIEWS,
    "a stack keeps every [policy](policies.md), and each policy finds its defect": OFFLINE,
    "a pull request's comment says what changes, what goes down, what policies say, what it costs, and how a worse scaling "
    "setting does under load": _PREVIEWS,
    "a command ends with a sentence and a documented code whatever it runs in: outside of a checkout, in a deleted folder, "
    "without a home, programs or a locale, with a broken AWS configuration, on a full disk, with nobody reading": (
        "each of these surroundings would have to be made while it runs"
    ),
    "the fleets of `stackctl plan` hold the wants, and none with each model on one fleet are cheaper": (
        "it needs the rates of models on GPUs, measured: `modelctl tune` does that"
    ),
    "`stackctl init` writes a stack file that is valid and true for the account": _BEFORE,
    "AWS credentials of every kind are used, or the command says what to do": _BEFORE,
    "`make state` makes the place for Pulumi's state, and goes on where it was cut short": _BEFORE,
    "`stackctl image` finds the digest of a release, and `--mirror` copies the image byte by byte, goes on after an "
    "interruption, and pushes over nothing": _BEFORE,
    "stacks of one environment have no name in common, in one region or in two, and every ARN and host is of the region's "
    "partition": "it needs two stacks",
    "a stack is judged by the policies of what it is, whatever its name": OFFLINE,
    "the first preview of each stack, which knows no kubeconfig on AWS, violates no mandatory policy": _PREVIEWS,
    "the twin's `eks.Cluster` has the official component's children: parents, inputs, dependencies, ignored changes": (
        "it is about the twin"
    ),
    "a node group or an add-on that fails after AWS returned its id is [reported with its cause and the command that "
    "repairs it](runbooks/NodeGroupCreateFailed.md), and `first-inference` does not wait for its nodes": (
        "it needs a node group that EC2 cannot start"
    ),
    "stacks come up while IAM and Pod Identity are 15 s late and tags and aliases of KMS keys a minute": (
        "nobody can choose how late AWS is; a run that comes up has seen one delay"
    ),
    "a principal of IAM has in the cluster what its access entry says, and nothing without one": (
        "it needs several principals of the account"
    ),
    "commands reach pods by the API server's port forward, wherever they run, and a lost forward is never held against a "
    "model": _DISRUPTIVE,
    "a release gets into several buckets in one go, or into none where there is a mistake": "it needs several stacks",
    "two releases whose ids begin alike are told apart by every command, and no object of a release is replaced": _HARM,
    "a release that no signer of the stack has signed reaches no server, no other stack and no stack file; "
    "[signatures](serving.md#signed-releases) are those of OpenSSF Model Signing": _HARM,
    "what is deployed is what the approvers have read": _GITHUB,
    "Container Insights has a group with key and retention, an agent that may write there alone, and room for its pods": (
        "it costs by the observation, and no stack of this repository has it"
    ),
    "nodes pull images in parallel": "it needs two starts of the same node, with the setting and without",
    "a stack in [a VPC or a cluster that was there](existing.md) makes neither, and leaves both as they were when it goes": (
        "it needs a VPC or a cluster of somebody else's, held against what it was"
    ),
    "a program reaches a private API server through `stackctl tunnel`": _TUNNEL,
    "clients of the gateway: who is not known, not allowed or too fast is refused; keys reach it from Secrets Manager; a "
    "domain with its certificate leads to it": "it needs a hosted zone, and clients inside the VPC",
    "with `gateway.imageRegistry` no image of Envoy comes from Docker Hub": (
        "it needs a pull-through cache of Docker Hub in ECR"
    ),
    "`stackctl certify` brings a stack up, says of each claim of this page whether the account agrees, and takes the stack "
    "away whatever happens": "it is what runs",
    "a runner of GitHub's jobs in the VPC is let in to the API server, and may not deploy by itself": _GITHUB,
    "workflows and the roles that they use": _GITHUB,
    "no secret is shown": "it needs somebody who reads state, logs and command lines, and knows what is secret",
    "where the time of a start goes is told for each fleet, and by the pods that run": _BY_HAND,
    "a fleet without pods gets its first by a message of the queue, or by a request at the gateway, and loses the last when "
    "all is answered, not in an outage of Prometheus": "it needs a fleet that may have no pod, and the time until it has "
    "lost the last",
    "the rules of 100 models are in objects that prometheus-operator takes: it refuses one of more than 512 KiB": (
        "it needs a hundred models"
    ),
    "nodes are started by cluster-autoscaler": "no node says which of them it has started",
    "broken nodes are replaced": "a node would have to be broken, and its replacement takes up to half an hour",
    "what must last cannot be deleted without the flag": "the stack is taken away again, so that it must have the flag",
    "what an upgrade replaces or deletes is known before it": "it needs a stack of an earlier release",
    "what a change would replace, lose and interrupt in a stack that runs is said on its exported state": _PREVIEWS,
    "moving to another GPU pool loses no request": _DISRUPTIVE,
    "a new Kubernetes version loses no request": _DISRUPTIVE,
    "generated model configurations are valid and load": (
        "those of the released models load where Triton becomes ready, a claim of its own; others need models of yours"
    ),
    "the GPU memory budget of a pod": "each model would have to be alone on a GPU, under the largest of its requests",
    "no accepted request is lost when a pod drains": _DISRUPTIVE,
    "a rolling update under load fails no request": _DISRUPTIVE,
    "a stack may have several [fleets](fleets.md), and a model moves from one to another without a lost request": (
        _DISRUPTIVE
    ),
    "an in-place rollout under load fails no request and mixes no versions": _DISRUPTIVE,
    "with `access: local` a rollout in place under load fails no request: a sidecar brings the next release, a killed one "
    "goes on, a wrong file ends the rollout before any pod loads": _DISRUPTIVE,
    "an `up` that waited in vain is repaired by the next, which waits again": "it needs an `up` that fails",
    "a release on [pods of its own](blue-green.md) is asked after its golden inferences, gets more requests by steps, and a "
    "bad one is taken back by itself": _DISRUPTIVE,
    "a release gets [copies of live requests](blue-green.md#copies-of-requests) and is judged by them before a client has "
    "an answer of it": "it needs clients of the gateway, and twice the pods",
    "answers of live requests are [compared](blue-green.md#answers-of-live-requests) with those of the release, and a "
    "candidate whose answers differ is taken back before a client has one": (
        "it needs clients of the gateway, twice the pods, and a release that answers otherwise"
    ),
    "a killed or concurrent rollout ends well": _DISRUPTIVE,
    "a part that is killed, silent, gone or wrong costs nothing that was accepted, and all is well again within a stated "
    "time": _DISRUPTIVE,
    "tuning holds an SLO at a higher rate than no batching, and at a low one": _CLIENTS,
    "clients: deadlines, retries, balancing, sequences, streams": _CLIENTS,
    "a client in the server's pod passes tensors in shared memory, behind the key of the admin API; what a killed client "
    "leaves is removed by the next": _CLIENTS,
    "a queued request is answered once, whatever is killed; poison ends in the dead-letter queue": _DISRUPTIVE,
    "clients that know nothing of the gateway [work as they are](traffic.md#unmodified-clients): health, metadata, "
    "configuration, inference, streams; the rest of Triton stays closed": _CLIENTS,
    "a ready pod whose model answers only errors gets no requests for a while": _DISRUPTIVE,
    "alerts and recording rules": (
        "an alert needs something broken, and Prometheus can be asked from inside the cluster alone"
    ),
    "the metrics that rules and dashboards read exist": "Prometheus can be asked from inside the cluster alone",
    "pods that serve other models, versions or configurations than the rest are found, by `modelctl parity` and by alerts "
    "(`monitoring.parityImage`)": "it needs pods that differ",
    "the images of modelctl and the worker are [built](images.md) by the repository: two builds have one digest, and Python "
    "is the only program in them": "no account is needed: `make e2e-slow GROUP=images`",
    "pods follow a load": _CLIENTS,
    "no pod goes while Prometheus is away": _DISRUPTIVE,
    "slow and refused requests keep their traces": _CLIENTS,
    "a language model is scaled and watched by what its backend exports, and its memory counted": _MODELS,
    "a plan that the server's TensorRT does not load is refused, by a release and by a preview": _MODELS,
    "a language model of the vLLM backend is released by NVIDIA's own sample config, answers by streams, and exports what "
    "rules and dashboard read": _MODELS,
    "clients of OpenAI's API reach language models, by pods and gateway": _MODELS,
    "a Job on each kind of GPU of a stack builds a plan of a released model, and the next release takes it": _MODELS,
    "NVIDIA's configs of vLLM and TensorRT-LLM are released as they are, and what keeps an engine from starting is told; so "
    "are backends of one's own": _MODELS,
    "a release reaches the pod's disk before the server starts, verified; a killed fetch is resumed; a wrong file keeps the "
    "pod from starting and is named": _DISRUPTIVE,
    "pods of a node download a release once, and serve from copies of their own": "it needs a second pod on the same node",
    'an ONNX model with `backend: "onnxruntime"` is served on the twin by the config that a GPU would have': (
        "it is about the twin"
    ),
    "real ONNX models (types of files; text in pictures by three models behind one in Python) answer as the packages that "
    "they come from do, one for speech as its file does on onnxruntime with the state kept by hand, from the release that "
    "`dev`, `staging` and `prod` pin, whose id is made anew": "a run asks one of them, once; `modelctl watch` asks more",
    "a config that is not one of its ONNX file, a damaged file, missing weights, an operator set that a stack's Triton "
    "lacks: refused before anything is uploaded": (
        "such files would have to be put past the release that refuses them, before NVIDIA's own backend"
    ),
    "[your ONNX model](your-model.md), from a file to an answer": _MODELS,
    "a 400 MB ONNX transformer, an ONNX detector and a three-step pipeline with a Python tokenizer get from files to "
    "answers with four keys per model, and a TorchScript file into the release": _MODELS,
    "a busy pod of many models under a CPU quota stays ready": _DISRUPTIVE,
    "ONNX models through TensorRT get a profile from batches of 1 to the largest": _MODELS,
    "`modelctl import` makes of an ONNX file, and of a directory or a server of MLflow's, a model that a "
    "release takes": "it needs a server of MLflow's: import a model of it, and release that",
    "a Python model finds the packages that it brings": _MODELS,
    "a canary is judged by its requests: bad ones are found, and few right ones are taken back": _DISRUPTIVE,
    "replayed requests are answered by a new version as by the old one, or the rollout is undone": _DISRUPTIVE,
    "`modelctl watch` finds a release that answers wrongly or fails, and pins the one before": _DISRUPTIVE,
    "no request fails while all pods of Triton, or an Envoy, are replaced behind the gateway; a new pod gets its share "
    "little by little": _DISRUPTIVE,
    "what is added to Triton's pod is valid, counted and restricted": "it needs a stack that adds something, like EFA",
    "`twin replay` says what a change of scaling, pools or models does to latency and cost": (
        "it needs a load of hours, recorded, and what it cost: give the recording to `twin replay`"
    ),
}
"""By the words of the claim on the page."""
