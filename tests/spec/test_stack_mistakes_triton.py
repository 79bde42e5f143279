"""Mistakes about the models, the image and the pods of Triton in a stack file."""

from typing import Any

import pytest

from tests.spec.stack_config import DIGEST, LARGEST_ON_G5_XLARGE, REMOVED, complaints

CPU_MODEL = {"device": "cpu", "sloP95Ms": 9, "expectedRate": 1, "peakRate": 1}
ALIKE = "differs from 'a' in upper and lower case only, and no release has both; keep the one that is meant"

MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"models.s3Endpoint": "minio.example.com"},
        [
            (
                "models.s3Endpoint: 'minio.example.com' is not an S3 endpoint; give scheme, host and "
                "port only, like https://minio.example.com:9000"
            )
        ],
    ),
    (
        {"models.s3Endpoint": "http://minio:9000/bucket"},
        [
            (
                "models.s3Endpoint: 'http://minio:9000/bucket' is not an S3 endpoint; give scheme, "
                "host and port only, like https://minio.example.com:9000"
            )
        ],
    ),
    (
        {"models.s3Endpoint": "http://minio:99999"},
        [
            (
                "models.s3Endpoint: 'http://minio:99999' is not an S3 endpoint: '99999' is no port, which is 1 to 65535; "
                "give scheme, host and port only, like https://minio.example.com:9000"
            )
        ],
    ),
    (
        {"models.release.id": 123456789012},
        [
            (
                "models.release.id: 123456789012 without quotes is a number; `python -m modelctl release … --pin FILE` "
                "writes one, of 64 lower-case hex digits, in quotes"
            )
        ],
    ),
    *(
        (
            {"models.release.id": wrong},
            [
                f"models.release.id: '{wrong}' is not a release id; `python -m modelctl release … --pin FILE` writes one, "
                "of 64 lower-case hex digits"
            ],
        )
        for wrong in ("latest", "39bf0b9fd8bb")
    ),
    ({"models.release.bytes": 0}, ["models.release.bytes: 0 is out of range; use 1 to 1000000000000000 bytes"]),
    ({"models.release.models": {}}, ["models.release.models: is empty; give at least one"]),
    (
        {"models.release.models.resnet50": 0},
        ["models.release.models.resnet50: 0 is out of range; use 1 to 999999999 for a version"],
    ),
    (
        {"models.release.models.resnet50": "1"},
        ["models.release.models.resnet50: '1' is text; give a whole number without quotes"],
    ),
    ({"models.release.models": ["resnet50"]}, ["models.release.models: it is a list; give a mapping of keys to values"]),
    ({"models.oldReleaseDays": 0}, ["models.oldReleaseDays: 0 is out of range; use 1 to 3650 days"]),
    (
        {"triton.version": 26.07},
        [('triton.version: 26.07 without quotes is a number (26.10 would become 26.1); quote it: "26.07"')],
    ),
    (
        {"triton.version": "26.06"},
        [
            (
                "triton.version: NVIDIA's security bulletins name holes of releases before 26.07; use "
                '"26.07", "26.08", "26.09", "26.10" or "26.11"'
            )
        ],
    ),
    (
        {"triton.version": "27.01"},
        [
            (
                "triton.version: spec/versions.py does not know 27.01; give server, cuda, tensorrt of its image too, or use "
                '"26.07", "26.08", "26.09", "26.10" or "26.11"'
            )
        ],
    ),
    (
        {"triton.version": "27.01", "triton.server": "2.77.0", "triton.cuda": "14.0", "triton.tensorrt": "12.0.1"},
        ["triton.cuda: spec/versions.py has no oldest driver for CUDA 14.0; use an image with 13"],
    ),
    ({"triton.server": "2.71.0"}, ["triton.server: spec/versions.py has it for 26.07; remove it"]),
    ({"triton.cuda": 13.4}, ['triton.cuda: 13.4 without quotes is a number (13.10 would become 13.1); quote it: "13.4"']),
    (
        {"triton.image": "nvcr.io/nvidia/tritonserver:26.07-py3"},
        [
            (
                "triton.image: the tag '26.07-py3' can be pushed again, so that a restart would serve"
                " something else; give <mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl "
                "image` writes it)"
            )
        ],
    ),
    (
        {"triton.image": "nvcr.io/nvidia/tritonserver"},
        [
            (
                "triton.image: 'nvcr.io/nvidia/tritonserver' has no digest and means the tag latest; "
                "give <mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)"
            )
        ],
    ),
    (
        {"triton.image": f"nvcr.io/nvidia/tritonserver:26.07-py3@{DIGEST}"},
        [
            (
                "triton.image: with the tag '26.07-py3' beside the digest, one of them lies after the"
                " next push; give <mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image`"
                " writes it)"
            )
        ],
    ),
    (
        {"triton.image": "nvcr.io/nvidia/tritonserver@sha256:abc"},
        [
            (
                "triton.image: 'sha256:abc' is not a sha-256 digest; give "
                "<mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)"
            )
        ],
    ),
    (
        {
            "triton.image": (
                "nvcr.io/nvidia/tritonserver@sha256:0000000000000000000000000000000000000000000000000000000000000000"
            )
        },
        [
            (
                "triton.image: 'sha256:000000000000...' is a placeholder; give "
                "<mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)"
            )
        ],
    ),
    (
        {"triton.image": f"nvcr.io/nvidia/pytorch@{DIGEST}"},
        [("triton.image: 'nvcr.io/nvidia/pytorch' is not a Triton image; its path must contain /tritonserver")],
    ),
    (
        {"triton.image": f"NVCR/x/tritonserver@{DIGEST}"},
        [
            (
                "triton.image: 'NVCR/x/tritonserver' is not an image repository; give "
                "<mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)"
            )
        ],
    ),
    ({"triton.pool": "g6"}, ["triton.pool: there is no GPU pool 'g6'; use g5 or p4d"]),
    ({"triton.gpus": 2}, ["triton.gpus: 2 GPUs are more than a g5.xlarge of pool 'g5' has; use at most 1"]),
    (
        {"triton.gpus": 0},
        ["triton.gpus: 0 leave the GPUs of pool 'g5' idle; use 1 or more, or pool: cpu (nodes.cpu)"],
    ),
    (
        {"gpu": REMOVED},
        ["triton.pool: there is no GPU pool 'g5'; add it to gpu.pools, or use cpu (nodes.cpu)"],
    ),
    (
        {"gpu.pools[0].sharing": {"strategy": "mps", "replicas": 4}, "triton.gpus": 2},
        ["triton.gpus: 2 shares of a GPU are no more than one (pool 'g5' uses mps); use 1"],
    ),
    (
        {"triton.memoryGiB": 16},
        [
            (
                "triton.memoryGiB: 16 GiB are more than a g5.xlarge of pool 'g5' has left beside the "
                "kubelet and the add-ons; use at most 13"
            )
        ],
    ),
    ({"triton.cpu": 3}, ['triton.cpu: 3 is a number; give vCPUs in quotes, like "3", "1.5" or "1500m"']),
    (
        {"triton.cpu": "4"},
        [
            (
                "triton.cpu: 4 vCPUs are more than a g5.xlarge of pool 'g5' has left beside the "
                'kubelet and the add-ons; use at most "3680m"'
            )
        ],
    ),
    (
        {"triton.cpu": "1m"},
        [
            "triton.cpu: '1m' is less than the 10m that a container is given in any case; give vCPUs in quotes, like \"3\", "
            '"1.5" or "1500m"'
        ],
    ),
    (
        {"triton.cpu": "0.05"},
        ["triton.cpu: '0.05' is less than 100m, with which a server takes hours to start; give one like \"3\""],
    ),
    (
        {"models.release": None, "models.serving": {"a": CPU_MODEL, "A": CPU_MODEL}},
        [f"models.serving.A: {ALIKE}"],
    ),
    ({"models.serving": {}, "models.release.models": {"a": 1, "A": 1}}, [f"models.release.models.A: {ALIKE}"]),
    (
        {"triton.cpu": "lots"},
        [('triton.cpu: \'lots\' is not an amount of CPU; give vCPUs in quotes, like "3", "1.5" or "1500m"')],
    ),
    (
        {"triton.replicas": 5},
        [
            (
                "triton.replicas: 5 pods do not fit the 2 desired nodes of pool 'g5', 1 on each, and nothing adds nodes "
                "by itself; raise the pool's desired to 5, or use at most 2 replicas"
            )
        ],
    ),
    (  # max is 4: room that no autoscaler creates
        {"triton.replicas": 3},
        [
            (
                "triton.replicas: 3 pods do not fit the 2 desired nodes of pool 'g5', 1 on each, and nothing adds nodes "
                "by itself; raise the pool's desired to 3, or use at most 2 replicas"
            )
        ],
    ),
    (
        {"triton.pool": "p4d", "triton.gpus": 4, "triton.replicas": 3},
        [
            (
                "triton.replicas: 3 pods do not fit the 0 desired nodes of pool 'p4d', 2 on each, and nothing adds nodes "
                "by itself; raise the pool's desired to 2"
            )
        ],
    ),
    (
        {
            "gpu.pools[0].sharing": {"strategy": "mps", "replicas": 2},
            "triton.memoryGiB": 6,
            "triton.cpu": "1",
            "triton.replicas": 9,
        },
        [
            (
                "triton.replicas: 9 pods do not fit the 2 desired nodes of pool 'g5', 2 on each, and nothing adds nodes "
                "by itself; raise the pool's desired to 5, or use at most 4 replicas"
            )
        ],
    ),
    (
        {"models.release.bytes": LARGEST_ON_G5_XLARGE + 1},
        [
            (
                f"models.release.bytes: {LARGEST_ON_G5_XLARGE + 1} bytes make a pod ask for 178 GiB of disk (its cache "
                "holds 2 copies) and a g5.xlarge of pool 'g5' has 177 GiB left beside the kubelet and the images; "
                "use instance types with larger disks, or release fewer models"
            )
        ],
    ),
    (  # the pool's smallest disk counts, whatever the order of types
        {"gpu.pools[0].instanceTypes": ["g5.2xlarge", "g5.xlarge"], "models.release.bytes": 100 * 1024**3},
        [
            (
                "models.release.bytes: 107374182400 bytes make a pod ask for 202 GiB of disk (its cache holds 2 copies) "
                "and a g5.xlarge of pool 'g5' has 177 GiB left beside the kubelet and the images; "
                "use instance types with larger disks, or release fewer models"
            )
        ],
    ),
    (  # two pods share a node's disk
        {
            "gpu.pools[0].sharing": {"strategy": "mps", "replicas": 2},
            "triton.memoryGiB": 6,
            "triton.cpu": "1",
            "triton.replicas": 3,
            "models.release.bytes": 50 * 1024**3,
        },
        [
            (
                "triton.replicas: 3 pods do not fit the 2 desired nodes of pool 'g5', 1 on each, and nothing adds nodes "
                "by itself; raise the pool's desired to 3, or use at most 2 replicas"
            )
        ],
    ),
]


@pytest.mark.parametrize(("changes", "expected"), MISTAKES, ids=[str(changes) for changes, _ in MISTAKES])
def test_a_mistake_is_said_where_it_is_and_with_what_is_valid(changes: dict[str, Any], expected: list[str]) -> None:
    assert complaints(changes) == expected
