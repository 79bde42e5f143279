"""Define the commands of `modelctl`. Each imports what it does when it is called: packages of AWS and Triton are slow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.exit_codes import EPILOG
from console.options import PLATFORM, Json, options_of_the_program
from modelctl.rollout.limits import Limits, Terms
from spec import stack_names
from spec.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_METRICS_PORT, TRITON_NAMESPACE

if TYPE_CHECKING:
    from modelctl.fetch.whole import Cache

app = typer.Typer(
    help="Models: imported, released immutably, pinned in a stack, tuned, rolled out, rolled back.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(options_of_the_program)

Bucket = Annotated[str, typer.Option(help="The stack's models bucket.")]
StackBucket = Annotated[
    str | None, typer.Option("--bucket", help="Models bucket.", show_default="bucket of the stack that --stack names")
]
Stack = Annotated[
    str | None,
    typer.Option("--stack", metavar="NAME", help="Stack, like prod: its file says which bucket, region and file are meant."),
]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", help="URL of an S3-compatible store instead of AWS.")]
ReleaseId = Annotated[str, typer.Argument(metavar="ID", help="Id of a release, 64 hex digits.")]
StackFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="Stack file.", show_default="file of the stack --stack names")
]
Stacks = Annotated[Path, typer.Option(help="Directory of the stack files.")]
Namespace = Annotated[str, typer.Option(help="Namespace of Triton.")]
CacheDirectory = Annotated[
    Path | None, typer.Option(metavar="DIRECTORY", help="Directory that others share, which releases are copied from.")
]
CacheGib = Annotated[int, typer.Option("--cache-gib", min=1, help="GiB of releases that it holds at most.")]
Signers = Annotated[
    str | None,
    typer.Option(envvar="MODEL_SIGNERS", metavar="PEM", help="Public keys and certificates; one has to have signed it."),
]
Sign = Annotated[str | None, typer.Option(metavar="KEY", help="Sign it: a PEM file with a private EC key, or awskms:ARN.")]
Certificates = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Certificate of that key, then those that issued it, PEM.")
]
_LIMITS = Limits()
_STACKS = Path("stacks")


def _file(stack: str | None, file: Path | None) -> Path:
    """Return the stack file that the options name."""
    if (stack is None) == (file is None):
        raise typer.BadParameter("name the stack file once: by --stack NAME, or by its path")
    return stack_names.file_of(stack, Path()) if stack is not None else Path(file or "")


def _bucket(stack: str | None, bucket: str | None, stacks: Path = _STACKS) -> str:
    """Return the models bucket that the options name."""
    if bucket is not None:
        return bucket
    if stack is None:
        raise typer.BadParameter("give --stack NAME, or --bucket")
    from modelctl.release.promote import bucket_of

    return bucket_of(stacks / f"Pulumi.{stack}.yaml" if stacks != _STACKS else stack_names.file_of(stack, Path()))


@app.command()
def release(
    models_dir: Annotated[Path, typer.Argument(help="The model repository: a directory per model.")],
    stack: Stack = None,
    bucket: StackBucket = None,
    endpoint_url: Endpoint = None,
    stacks: Annotated[
        Path | None,
        typer.Option(help="Directory of the stack files to make configs for.", show_default="beside MODELS_DIR"),
    ] = None,
    pin: Annotated[Path | None, typer.Option(metavar="FILE", help="Stack file to pin the release in.")] = None,
    sign: Sign = None,
    certificates: Certificates = None,
) -> None:
    """Validate MODELS_DIR, make each stack's configs, upload all as an immutable release, and print its id."""
    from modelctl.release import command
    from modelctl.store.signer import Signer

    if stack is not None:
        pin = _file(stack, pin)
    signer = Signer.of(sign, certificates)
    command.release(models_dir, _bucket(stack, bucket), endpoint_url, stacks=stacks, pin_in=pin, signer=signer)


@app.command("import")
def import_(
    source: Annotated[
        str,
        typer.Argument(
            help="An ONNX file, a directory that MLflow has made of an ONNX model, or one of an MLflow server, like "
            "models:/scores/3."
        ),
    ],
    into: Annotated[Path, typer.Option(metavar="MODELS_DIR", help="The model repository.")] = Path("models"),
    name: Annotated[
        str | None, typer.Option(help="The model's name there.", show_default="that of the file, or of its directory")
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(min=0, max=65536, help="Largest batch, 0 for none.", show_default="8 where it can batch")
    ] = None,
    tracking_uri: Annotated[
        str | None, typer.Option(metavar="URL", envvar="MLFLOW_TRACKING_URI", help="The MLflow server of SOURCE.")
    ] = None,
) -> None:
    """Copy a model into a repository, with a config.pbtxt written from its file."""
    from modelctl.importer import command, mlflow_server

    if mlflow_server.is_uri(source):
        command.import_from_server(source, tracking_uri, into, name, max_batch_size)
    else:
        command.import_model(Path(source), into, name, max_batch_size)


@app.command("try")
def try_(
    source: Annotated[Path, typer.Argument(help="An ONNX file, or a directory that MLflow wrote of an ONNX model.")],
    name: Annotated[str | None, typer.Option(help="Name of the model.", show_default="name of the file")] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(min=0, max=65536, help="Largest batch, 0 for none.", show_default="8 if it can batch")
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Request to send, in the form of golden.json. Outputs in it are compared with the answer.",
            show_default="golden.json beside SOURCE, else random values",
        ),
    ] = None,
) -> None:
    """Serve a model on this machine until Ctrl-C. Print an answer, latency under load, a curl line and stack file lines."""
    from modelctl.trial import command

    command.try_model(source, name, max_batch_size, request)


@app.command("list")
def list_(stack: Stack = None, bucket: StackBucket = None, endpoint_url: Endpoint = None, as_json: Json = False) -> None:
    """List the releases in the bucket, oldest first, unfinished ones too."""
    from modelctl.release import command

    command.list_releases(_bucket(stack, bucket), endpoint_url, as_json=as_json)


@app.command()
def show(
    release_id: ReleaseId,
    stack: Stack = None,
    bucket: StackBucket = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> None:
    """Show the models and objects of a release."""
    from modelctl.release import command

    command.show(release_id, _bucket(stack, bucket), endpoint_url, as_json=as_json)


@app.command()
def verify(
    release_id: ReleaseId,
    stack: Stack = None,
    bucket: StackBucket = None,
    endpoint_url: Endpoint = None,
    as_json: Json = False,
) -> int:
    """Read every object of a release back and compare it with the manifest."""
    from modelctl.release import command

    return command.verify(release_id, _bucket(stack, bucket), endpoint_url, as_json=as_json)


@app.command(rich_help_panel=PLATFORM)
def fetch(
    release_id: ReleaseId,
    bucket: Bucket,
    to: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Directory to download into.")],
    endpoint_url: Endpoint = None,
    serve: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Serve its progress as Prometheus metrics meanwhile.")
    ] = None,
    cache: CacheDirectory = None,
    cache_gib: CacheGib = 100,
    signers: Signers = None,
) -> None:
    """Download a release to a local disk, in parallel, and verify every file: then DIRECTORY/current leads to it.

    Where it was interrupted, run it again: it goes on from there.
    """
    from modelctl.fetch import command

    command.fetch(release_id, bucket, endpoint_url, to, serve, _shared(cache, cache_gib), signers)


@app.command(rich_help_panel=PLATFORM)
def follow(
    bucket: Bucket,
    to: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Directory that a server of live/ reads.")],
    endpoint_url: Endpoint = None,
    serve: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Serve what is there, and Prometheus metrics, meanwhile.")
    ] = None,
    cache: CacheDirectory = None,
    cache_gib: CacheGib = 100,
    once: Annotated[
        bool, typer.Option("--once", help="End when all that is served is there; before a server starts.")
    ] = False,
    signers: Signers = None,
) -> None:
    """Keep DIRECTORY/current as live/ in the bucket is, for rollouts in place: each release verified beside the one before.

    Where it was interrupted, run it again: it goes on from there.
    """
    from modelctl.fetch import command

    (command.fill if once else command.follow)(bucket, endpoint_url, to, serve, _shared(cache, cache_gib), signers)


def _shared(directory: Path | None, gib: int) -> Cache | None:
    from modelctl.fetch.whole import Cache

    return Cache(directory, gib) if directory is not None else None


@app.command("build-plans")
def build_plans(
    release_id: ReleaseId,
    model: Annotated[str, typer.Argument(help="An ONNX model of the release.")],
    stack: Stack = None,
    bucket: StackBucket = None,
    file: StackFile = None,
    trtexec: Annotated[
        list[str] | None, typer.Argument(metavar="[-- TRTEXEC…]", help="Further arguments of trtexec, like --minShapes=….")
    ] = None,
    endpoint_url: Endpoint = None,
) -> None:
    """Print Jobs that build TensorRT plans of an ONNX model, one for each kind of GPU that a stack serves on.

    `kubectl create -f -` starts them. Each writes its plan into the bucket, under plans/.
    """
    from modelctl.plan_builds import command

    command.build_plans(release_id, model, _bucket(stack, bucket), endpoint_url, _file(stack, file), trtexec or ())


@app.command("put-plan", rich_help_panel=PLATFORM)
def put_plan(
    plan: Annotated[Path, typer.Argument(help="The file that trtexec has written.")],
    key: Annotated[str, typer.Argument(help="Its key in the bucket, plans/….")],
    bucket: Bucket,
    endpoint_url: Endpoint = None,
) -> None:
    """Write a TensorRT plan into the bucket, as the last step of such a Job."""
    from modelctl.plan_builds import command

    command.put_plan(plan, key, bucket, endpoint_url)


@app.command()
def pin(
    release_id: ReleaseId,
    stack: Stack = None,
    bucket: StackBucket = None,
    file: StackFile = None,
    endpoint_url: Endpoint = None,
) -> None:
    """Write a finished release into a stack file; the next `pulumi up` rolls it out."""
    from modelctl.release import command

    command.pin(release_id, _bucket(stack, bucket), endpoint_url, _file(stack, file))


@app.command()
def promote(
    names: Annotated[list[str], typer.Argument(metavar="STACK...", help="Stacks that pin a release, like prod-us prod-eu.")],
    before: Annotated[str, typer.Option(metavar="STACK", help="The stack that has had it, like staging.")],
    bucket: Annotated[list[str], typer.Option(help="Models bucket of each STACK: as many of them, in the same order.")],
    from_bucket: Annotated[
        str | None,
        typer.Option("--from", metavar="BUCKET", help="Models bucket of that stack; without it: as its file says."),
    ] = None,
    endpoint_url: Endpoint = None,
    stacks: Stacks = _STACKS,
    sign: Sign = None,
    certificates: Certificates = None,
) -> None:
    """Copy the release that each STACK pins from the bucket of the stack before, which has to have had it.

    Everything is checked before the first object is copied. Where it was interrupted, run it again: it goes on from there.
    """
    from modelctl.release import command
    from modelctl.store.signer import Signer

    command.promote(names, before, from_bucket, bucket, endpoint_url, stacks, Signer.of(sign, certificates))


@app.command()
def rollback(stack: Stack = None, bucket: StackBucket = None, file: StackFile = None, endpoint_url: Endpoint = None) -> None:
    """Pin the previous release again; the next `pulumi up` rolls it out. Twice returns to where it began."""
    from modelctl.release import command

    command.rollback(_bucket(stack, bucket), endpoint_url, _file(stack, file))


@app.command()
def retire(
    release_id: ReleaseId,
    stack: Stack = None,
    bucket: StackBucket = None,
    endpoint_url: Endpoint = None,
    stacks: Annotated[Path, typer.Option(help="Directory of the stack files; none may pin it.")] = _STACKS,
    undo: Annotated[bool, typer.Option("--undo", help="Keep the release after all.")] = False,
) -> None:
    """Let S3 remove a release that no stack pins, by tagging its objects retired=true."""
    from modelctl.release import command

    command.retire(release_id, _bucket(stack, bucket), endpoint_url, stacks, undo=undo)


@app.command()
def rollout(
    stack: Annotated[str, typer.Option(metavar="NAME", help="Stack whose configs of the release are served.")],
    release: Annotated[str | None, typer.Argument(metavar="RELEASE", help="Id of a release, 64 hex digits.")] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Undo the unfinished rollout, or return to the release before the last one.")
    ] = False,
    canary: Annotated[
        str, typer.Option(metavar="STEPS", help="Shares of the requests, each judged by the SLO, like 5%,25%,100%.")
    ] = "100%",
    mirror: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Judge a release on pods of its own by copies of this share of the requests first, like 20%; clients have "
            "no answer of it.",
        ),
    ] = None,
    canary_requests: Annotated[
        int, typer.Option(min=1, help="Requests per model that a step has at least.")
    ] = _LIMITS.terms.requests,
    canary_least_seconds: Annotated[float, typer.Option(min=0, help="How long a step lasts at least.")] = (
        _LIMITS.terms.seconds
    ),
    canary_seconds: Annotated[
        float, typer.Option(min=1, help="How long a step waits for that many requests.")
    ] = _LIMITS.canary,
    slower_percent: Annotated[
        float,
        typer.Option(min=1, max=1000, help="A canary that takes this much longer than the version before is taken back."),
    ] = _LIMITS.terms.slower * 100,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Requests, one a line, that both versions are asked before clients are told."),
    ] = None,
    differ_percent: Annotated[
        float,
        typer.Option(
            min=0,
            max=99,
            help="How many of these, and of copies that a comparer gets (triton.comparerImage), the two may answer "
            "differently.",
        ),
    ] = 0,
    watch_seconds: Annotated[
        float, typer.Option(min=0, help="How long the new versions are judged when they have all requests.")
    ] = _LIMITS.watch,
    load_seconds: Annotated[
        float, typer.Option(min=1, help="How long one model may load on one pod, with download and warm-up.")
    ] = _LIMITS.load,
    bucket: StackBucket = None,
    namespace: Namespace = TRITON_NAMESPACE,
    stacks: Stacks = _STACKS,
    endpoint_url: Endpoint = None,
) -> None:
    """Bring a release by steps into running pods, or onto pods of its own (triton.rollout), without a lost request.

    Where it was interrupted, run it again: it goes on from there.
    """
    from modelctl.rollout import command

    terms = Terms(requests=canary_requests, seconds=canary_least_seconds, slower=slower_percent / 100)
    limits = Limits(canary=canary_seconds, watch=watch_seconds, load=load_seconds, terms=terms)
    asked = command.Asked(stack, release, stacks, canary, limits, back, replay, differ_percent / 100, mirror)
    command.rollout(asked, _bucket(stack, bucket, stacks), endpoint_url, namespace)


@app.command()
def watch(
    stack: Stack = None,
    bucket: StackBucket = None,
    file: StackFile = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long its requests are watched.")] = _LIMITS.watch,
    roll_back: Annotated[bool, typer.Option("--roll-back", help="Pin the release before in FILE when it is bad.")] = False,
    namespace: Namespace = TRITON_NAMESPACE,
    endpoint_url: Endpoint = None,
) -> None:
    """Judge the release that FILE pins, after `pulumi up`: its golden inferences on every pod, then failures and latency.

    Exit code 1 when it is bad, 3 when it got too few requests, or gave too few answers, to tell.
    """
    from modelctl.rollout import command

    limits = Limits(watch=seconds)
    command.watch(_file(stack, file), _bucket(stack, bucket), endpoint_url, namespace, limits, take_back=roll_back)


@app.command()
def parity(
    namespace: Namespace = TRITON_NAMESPACE,
    serve: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Serve it as Prometheus metrics until interrupted.")
    ] = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Reach pods at their own addresses, from a pod of their namespace.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Compare what the pods serve: each model's versions, and the hash of its config. Exit code 1 when they differ."""
    from modelctl.rollout import command

    return command.parity(namespace, serve, direct=direct, as_json=as_json)


@app.command(rich_help_panel=PLATFORM)
def compare(
    release_http: Annotated[str, typer.Option(metavar="URL", help="Where the release that serves is asked over HTTP.")],
    release_grpc: Annotated[str, typer.Option(metavar="TARGET", help="Where it is asked over gRPC.")],
    candidate_http: Annotated[str, typer.Option(metavar="URL", help="Where the candidate is asked over HTTP.")],
    candidate_grpc: Annotated[str, typer.Option(metavar="TARGET", help="Where it is asked over gRPC.")],
    tolerance: Annotated[
        list[str],
        typer.Option(metavar="MODEL=NUMBER", help="A model, and how far its numbers may be apart, as in golden.json."),
    ],
    http: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where copies come over HTTP.")
    ] = f"127.0.0.1:{TRITON_HTTP_PORT}",
    grpc: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where copies come over gRPC.")
    ] = f"127.0.0.1:{TRITON_GRPC_PORT}",
    serve: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where Prometheus asks.")
    ] = f"127.0.0.1:{TRITON_METRICS_PORT}",
    seconds: Annotated[float, typer.Option(min=1, help="How long an answer may take.")] = 60,
    http_proxy: Annotated[
        str | None, typer.Option(metavar="URL", help="What reaches both over HTTP, where their names lead nowhere.")
    ] = None,
) -> None:
    """Ask two releases each copy of a request in the same moment, and count by model how their answers compare.

    The stack runs it while a candidate gets copies (triton.comparerImage).
    """
    from modelctl.rollout.copies import command

    asked = (command.Addresses(release_http, release_grpc), command.Addresses(candidate_http, candidate_grpc))
    command.compare(*asked, tolerance, command.Listen(http, grpc, serve), seconds, http_proxy)


@app.command()
def tune(
    model: Annotated[str, typer.Argument(help="A model of MODELS_DIR.")],
    slo_p95_ms: Annotated[float, typer.Option("--slo-p95-ms", min=1, help="95 of 100 requests are answered in that time.")],
    slo_p99_ms: Annotated[
        float | None,
        typer.Option("--slo-p99-ms", min=1, help="99 of 100 requests are answered in that time; default: not asked."),
    ] = None,
    models: Annotated[Path, typer.Option(help="The model repository, the same that the server has.")] = Path("models"),
    server: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="A Triton's gRPC, in explicit mode and for this alone."),
    ] = f"127.0.0.1:{TRITON_GRPC_PORT}",
    pod: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Such a Triton in a cluster: its pod, by the API server's port forward."),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the pod.")] = TRITON_NAMESPACE,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="That of its metrics, which say how much of a GPU is taken.",
            show_default=f"port {TRITON_METRICS_PORT} of the same host",
        ),
    ] = None,
    admin_key: Annotated[
        str | None, typer.Option(envvar="TRITON_ADMIN_KEY", help="Key of a server that restricts its model control.")
    ] = None,
    budget_seconds: Annotated[
        float, typer.Option(min=20, help="How long to search; of a pipeline, each of its models.")
    ] = 300,
    max_instances: Annotated[int, typer.Option(min=1, max=64, help="The most instances to try.")] = 4,
    stack: Annotated[
        str | None, typer.Option(metavar="NAME", help="Stack, like dev, whose file the values are written into.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Stack file to write the values into, instead of --stack.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Directory for the evidence.")] = Path("benchmarks/results"),
    seed: Annotated[int, typer.Option(help="Of the arrivals and of the search.")] = 1,
    request: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Inputs to send, as golden.json has them; default: those of it.")
    ] = None,
    sequence_requests: Annotated[
        int | None, typer.Option(min=1, help="Requests of one sequence, of a model that keeps a state.")
    ] = None,
    sequence_gap_ms: Annotated[
        float | None, typer.Option("--sequence-gap-ms", min=0.1, help="Time between two requests of a sequence.")
    ] = None,
) -> None:
    """Search the batch size, delay and instances that hold the SLO at the highest rate, by measuring.

    Of an ensemble, or a model that asks others, those of all its models, for the SLO of the whole.

    Start a Triton for it with `python3 -m twin triton MODELS_DIR`, or as a pod of its own (benchmarks/README.md).
    """
    from modelctl.loadgen import Pace
    from modelctl.tune import command
    from modelctl.tune.goal import Goal

    if (sequence_requests is None) != (sequence_gap_ms is None):
        raise typer.BadParameter("give --sequence-requests and --sequence-gap-ms together")
    pace = Pace(sequence_requests, sequence_gap_ms / 1000) if sequence_requests and sequence_gap_ms else None
    goal = Goal(slo_p95_ms, budget_seconds, seed, slo_p99_ms)
    place = command.InCluster(pod, namespace) if pod is not None else command.Server(server, admin_key, metrics)
    written = _file(stack, file) if stack is not None else file
    command.tune(model, models, goal, max_instances, place, written, results, pace, request)
