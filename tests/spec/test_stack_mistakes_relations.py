"""Valid values that do not fit together, or that AWS, Kubernetes or Triton would refuse later."""

from typing import Any

import pytest

from tests.spec.stack_config import DIGEST, ECR, REMOVED, complaints, settings

CERTIFICATE = "arn:aws:acm:us-west-2:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"
MODEL = {"device": "cpu", "sloP95Ms": 100, "expectedRate": 5, "peakRate": 20}
GATEWAY = {"replicas": 2, "cpu": "500m", "memoryMiB": 512, "certificateArn": CERTIFICATE}
MONITORING = {"runbooks": "https://wiki.example.com", "replicas": 1, "retentionDays": 7, "storageGiB": 30}
WORKER = {
    "image": f"{ECR}/triton-worker@{DIGEST}",
    "maxReplicas": 4,
    "cpu": "500m",
    "memoryMiB": 640,
    "longestRequestSeconds": 60,
    "oldMessageMinutes": 15,
    "resultDays": 30,
}
COST = {"monthlyUsd": 100, "emails": ["oncall@example.com"]}
UNPINNED = {"models.release": REMOVED, "models.serving": {"resnet50": MODEL}}
SCALED = {
    **UNPINNED,
    "triton.replicas": REMOVED,
    "monitoring": MONITORING,
    "gpu.pools[0].min": 0,
    "gpu.pools[0].desired": 0,
    "autoscaling": {"minReplicas": 1, "maxReplicas": 3},
}
FLOOR = {"start": "0 7 * * 1-5", "end": "0 19 * * 1-5", "timezone": "Europe/Zurich", "replicas": 2}


def scaled(**changes: Any) -> dict[str, Any]:
    return {**SCALED, "autoscaling": {"minReplicas": 1, "maxReplicas": 3, **changes}}


def public(*ranges: str) -> dict[str, Any]:
    return {"cluster.endpoint": "public", "cluster.publicAccessCidrs": list(ranges)}


def reserved(zone: str, id_of_other: str) -> dict[str, Any]:
    """Return two pools with reserved capacity, one of them in another zone."""
    first = {"capacity": "reservation", "zones": ["us-west-2a"], "reservationId": "cr-0123456789abcdef0"}
    second = {**first, "zones": [zone], "reservationId": id_of_other, "instanceTypes": ["g5.xlarge"]}
    pools = {0: first, 1: second}
    return {f"gpu.pools[{index}].{key}": value for index, pool in pools.items() for key, value in pool.items()}


def described(**facts: Any) -> dict[str, Any]:
    return {"instanceTypes": {"c9.medium": {"vcpus": 2, "memoryGiB": 4, **facts}}}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    *(
        (
            {"triton.image": f"{registry}/tritonserver@{DIGEST}"},
            f"triton.image: '{registry}' is no registry of ECR; give one like <12 digits>.dkr.ecr.us-west-2.amazonaws.com",
        )
        for registry in ("12345.dkr.ecr.us-west-2.amazonaws.com", "dkr.ecr.us-west-2.amazonaws.de", "ecr.amazonaws.com")
    ),
    (
        {"charts": {"registry": "oci://123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/charts"}},
        "charts.registry: its registry is in cn-north-1, for which nodes in us-west-2 have no credentials; mirror the image "
        "to ECR in us-west-2",
    ),
    (
        {"gateway": {**GATEWAY, "imageRegistry": "registry.example.com:99999/hub"}},
        "gateway.imageRegistry: '99999' is no port, which is 1 to 65535; give one like 5000, or none",
    ),
    (
        {"triton.image": f"registry.example.com/{'x' * 240}/tritonserver@{DIGEST}"},
        f"triton.image: 'registry.example.com/{'x' * 240}/tritonserver' is not an image repository; give "
        "<mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)",
    ),
    (
        {"models.access": "fsx-lustre", "models.fsx": {"storageGiB": 2400 * 10**6, "throughputMBsPerTiB": 125}},
        "models.fsx.storageGiB: 2400000000 GiB is no size of this file system; use 1200, or a multiple of 2400 up to "
        "2147481600",
    ),
    (
        {"triton.image": f"123456789012.dkr.ecr.us-wset-2.amazonaws.com/nvidia/tritonserver@{DIGEST}"},
        "triton.image: there is no region 'us-wset-2'; did you mean 'us-west-2'? give the address as ECR has it",
    ),
    (
        {
            "aws:region": "cn-north-1",
            "network.zones": 2,
            "triton.image": f"123456789012.dkr.ecr.cn-north-1.amazonaws.com/tritonserver@{DIGEST}",
            "cluster.adminRoleArns": ["arn:aws-cn:iam::123456789012:role/admin"],
        },
        "triton.image: its registry ends in amazonaws.com, and those in cn-north-1 in amazonaws.com.cn",
    ),
    (
        {"charts": {"registry": "oci://registry.example.com:99999/charts"}},
        "charts.registry: '99999' is no port, which is 1 to 65535; give one like 5000, or none",
    ),
    (
        {"charts": {"registry": "oci://a..b/charts"}},
        "charts.registry: 'a..b' is no name of a host; give one like registry.example.com",
    ),
    (
        reserved("us-west-2b", "cr-0123456789abcdef0"),
        "gpu.pools[1].reservationId: cr-0123456789abcdef0 is that of pools[0], whose instance type or zone is another, and "
        "a reservation is for one type in one zone; give each pool its own",
    ),
    (
        described(memoryGiB=1),
        "instanceTypes.c9.medium.memoryGiB: 1 GiB are what the kubelet takes; use a larger type",
    ),
    (
        {**UNPINNED, "models.serving": {"resnet50": {**MODEL, "sequence": {"strategy": "oldest", "maxIdleMs": 100}}}},
        "models.serving.resnet50.sequence.maxIdleMs: 100 ms are no longer than the SLO of 100 ms, so that a sequence would "
        "end while its client waits for an answer; give more than 100",
    ),
    (
        {"gateway": {**GATEWAY, "allowedCidrs": ["169.254.0.0/16"]}},
        "gateway.allowedCidrs[0]: 169.254.0.0/16 is inside 169.254.0.0/16, from which no other machine calls; give the "
        "ranges of clients",
    ),
    (
        {"triton.cpu": "03"},
        'triton.cpu: \'03\' is not an amount of CPU; give vCPUs in quotes, like "3", "1.5" or "1500m"',
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws:iam::123456789012:role/a\x1b[2J\n"]},
        r"cluster.adminRoleArns[0]: 'arn:aws:iam::123456789012:role/a\x1b[2J\n' is not the ARN of an IAM role; "
        "give the ARN of an IAM role, like arn:aws:iam::123456789012:role/platform-admin",
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws-cn:iam::123456789012:role/admin"]},
        "cluster.adminRoleArns[0]: it is of partition aws-cn and us-west-2 is of aws; give one that begins with arn:aws:",
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws:iam::999999999999:role/admin"]},
        "cluster.adminRoleArns[0]: it is of account 999999999999 and the stack of 123456789012 "
        "(aws:allowedAccountIds); give one of the same account",
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws:iam::123456789012:role/admin/"]},
        "cluster.adminRoleArns[0]: 'arn:aws:iam::123456789012:role/admin/' ends in a slash and so names no "
        "role; give the ARN of an IAM role, like arn:aws:iam::123456789012:role/platform-admin",
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws:iam::123456789012:role/" + "a" * 65]},
        "cluster.adminRoleArns[0]: "
        "'arn:aws:iam::123456789012:role/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' "
        "names a role by more than the 64 characters that IAM takes; give the ARN of an IAM role, like "
        "arn:aws:iam::123456789012:role/platform-admin",
    ),
    (
        {"cluster.adminRoleArns": ["arn:aws:iam::123456789012:role/aws-service-role/eks.amazonaws.com/x"]},
        "cluster.adminRoleArns[0]: 'arn:aws:iam::123456789012:role/aws-service-role/eks.amazonaws.com/x' is a"
        " role that an AWS service assumes, and nobody else; give the ARN of an IAM role, like "
        "arn:aws:iam::123456789012:role/platform-admin",
    ),
    (
        {"gateway": {**GATEWAY, "certificateArn": CERTIFICATE.replace("123456789012", "999999999999")}},
        "gateway.certificateArn: it is of account 999999999999 and the stack of 123456789012 "
        "(aws:allowedAccountIds); give one of the same account",
    ),
    (
        {"gateway": {**GATEWAY, "certificateArn": CERTIFICATE.replace("us-west-2", "us-east-1")}},
        "gateway.certificateArn: it is in us-east-1 and the stack in us-west-2; give one of the same region",
    ),
    (
        {"gateway": {**GATEWAY, "certificateArn": CERTIFICATE.replace("arn:aws:", "arn:aws-us-gov:")}},
        "gateway.certificateArn: it is of partition aws-us-gov and us-west-2 is of aws; give one that begins with arn:aws:",
    ),
    (
        {"cost": {"monthlyUsd": 100, "topicArn": "arn:aws:sns:us-east-1:999999999999:budget"}},
        "cost.topicArn: it is of account 999999999999 and the stack of 123456789012 (aws:allowedAccountIds); "
        "give one of the same account",
    ),
    (
        {"cost": {"monthlyUsd": 100, "topicArn": "arn:aws:sns:us-esat-1:123456789012:budget"}},
        "cost.topicArn: there is no region 'us-esat-1'; did you mean 'us-west-1'? give the ARN as AWS shows it",
    ),
    (
        {"monitoring": {**MONITORING, "alertTopicArn": "arn:aws-cn:sns:cn-north-1:123456789012:oncall"}},
        "monitoring.alertTopicArn: it is of partition aws-cn and us-west-2 is of aws; give one that begins with arn:aws:",
    ),
    (
        {"worker": {**WORKER, "alarmTopicArn": "arn:aws:sns:us-east-1:123456789012:oncall"}},
        "worker.alarmTopicArn: it is in us-east-1 and the stack in us-west-2; give one of the same region",
    ),
    (
        {"worker": {**WORKER, "replyQueueArns": ["arn:aws-us-gov:sqs:us-gov-west-1:123456789012:answers"]}},
        "worker.replyQueueArns[0]: it is of partition aws-us-gov and us-west-2 is of aws; give one that "
        "begins with arn:aws:",
    ),
    (
        {"worker": {**WORKER, "replyQueueArns": ["arn:aws:sqs:us-west-2:123456789012:answers"] * 2}},
        "worker.replyQueueArns[1]: 'arn:aws:sqs:us-west-2:123456789012:answers' is listed twice; list each queue once",
    ),
    (
        {"worker": {**WORKER, "replyQueueArns": ["arn:aws:sqs:us-west-2:123456789012:triton-staging-requests"]}},
        "worker.replyQueueArns[0]: it is the queue of requests, and each answer would be a request; name another",
    ),
    (
        {"aws:allowedAccountIds": ["123456789012", "123456789012"]},
        "aws:allowedAccountIds[1]: 123456789012 is listed twice; list each account once",
    ),
    (
        {"triton.image": f"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/nvidia/tritonserver@{DIGEST}"},
        "triton.image: its registry is in cn-north-1, for which nodes in us-west-2 have no credentials; "
        "mirror the image to ECR in us-west-2",
    ),
    (
        {"tags": {"owner": "a", "cost-center": "b", **{f"key-{number}": "c" for number in range(39)}}},
        "tags: 41 tags are too many; AWS takes 50 of a resource, and those of the program, EKS and Karpenter "
        "are among them: give at most 40",
    ),
    (
        {"tags.owner": "a;b"},
        "tags.owner: ';' is no character of a tag's value; use letters, digits, spaces and _ . : / = + - @",
    ),
    (
        {"tags.owner": "a\nb"},
        "tags.owner: '\\n' is no character of a tag's value; use letters, digits, spaces and _ . : / = + - @",
    ),
    (
        {"tags.owner": " ml-platform"},
        "tags.owner: ' ml-platform' begins or ends with a space, which load balancers refuse; remove it",
    ),
    (
        {"tags": {"owner": "a", "cost-center": "b", "team ": "c"}},
        "tags.team : 'team ' begins or ends with a space, which load balancers refuse; remove it",
    ),
    (
        public("10.0.0.0/8"),
        "cluster.publicAccessCidrs[0]: 10.0.0.0/8 is inside 10.0.0.0/8, from which nothing comes over the "
        "internet; give the public addresses of your offices, VPN or runners, or use endpoint: private",
    ),
    (
        public("100.64.3.0/24"),
        "cluster.publicAccessCidrs[0]: 100.64.3.0/24 is inside 100.64.0.0/10, from which nothing comes over "
        "the internet; give the public addresses of your offices, VPN or runners, or use endpoint: private",
    ),
    (
        public("127.0.0.0/8"),
        "cluster.publicAccessCidrs[0]: 127.0.0.0/8 is inside 127.0.0.0/8, from which nothing comes over the "
        "internet; give the public addresses of your offices, VPN or runners, or use endpoint: private",
    ),
    (
        public("198.51.100.0/24", "198.51.100.0/24"),
        "cluster.publicAccessCidrs[1]: 198.51.100.0/24 is listed twice; list each range once",
    ),
    (
        public(*(f"198.51.{number}.0/24" for number in range(41))),
        "cluster.publicAccessCidrs: 41 ranges are listed; EKS takes up to 40: join some",
    ),
    (
        {"gateway": {**GATEWAY, "exposure": "public", "allowedCidrs": ["192.168.0.0/16"]}},
        "gateway.allowedCidrs[0]: 192.168.0.0/16 is inside 192.168.0.0/16, from which nothing comes over the "
        "internet; give public addresses, or use exposure: internal",
    ),
    (
        {"gateway": {**GATEWAY, "allowedCidrs": ["198.51.100.0/24", "198.51.100.0/24"]}},
        "gateway.allowedCidrs[1]: 198.51.100.0/24 is listed twice; list each range once",
    ),
    (
        {"triton.image": f"{ECR}/nvidia/tritonserver-sdk@{DIGEST}"},
        "triton.image: '123456789012.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver-sdk' is the image "
        "'sdk', in which there is no server with its backends; give the whole one, nvidia/tritonserver",
    ),
    (
        {"triton.image": f"{ECR}/nvidia/tritonserver-client@{DIGEST}"},
        "triton.image: '123456789012.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver-client' is the image "
        "'client', in which there is no server with its backends; give the whole one, nvidia/tritonserver",
    ),
    (
        {"triton.image": f"{ECR}/nvidia/tritonserver-py3-min@{DIGEST}"},
        "triton.image: '123456789012.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver-py3-min' is the "
        "image 'min', in which there is no server with its backends; give the whole one, nvidia/tritonserver",
    ),
    (
        {"triton.image": f"{ECR}/nvidia/tritonserver/26.07-py3-sdk@{DIGEST}"},
        "triton.image: '123456789012.dkr.ecr.us-west-2.amazonaws.com/nvidia/tritonserver/26.07-py3-sdk' is "
        "the image 'sdk', in which there is no server with its backends; give the whole one, "
        "nvidia/tritonserver",
    ),
    (
        {"triton.image": f"mirror.example.com:99999/nvidia/tritonserver@{DIGEST}"},
        "triton.image: 'mirror.example.com:99999/nvidia/tritonserver' is not an image repository; give "
        "<mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)",
    ),
    (
        {"triton.image": f"-mirror.example.com/nvidia/tritonserver@{DIGEST}"},
        "triton.image: '-mirror.example.com/nvidia/tritonserver' is not an image repository; give "
        "<mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)",
    ),
    (
        {"worker": {**WORKER, "image": f"mirror.example.com:99999/triton-worker@{DIGEST}"}},
        "worker.image: 'mirror.example.com:99999/triton-worker' is not an image repository; give "
        "<mirror>/triton-worker@sha256:<64 hex digits> (`crane digest` prints it)",
    ),
    (
        {"gateway": {**GATEWAY, "cpu": "500"}},
        "gateway.cpu: 500 vCPUs are more than a m7i.xlarge of the system nodes has left beside the kubelet and the"
        ' add-ons; use at most "3720m", or larger nodes',
    ),
    (
        {"gateway": {**GATEWAY, "memoryMiB": 60_000}},
        "gateway.memoryMiB: 60000 MiB are more than a m7i.xlarge of the system nodes has left beside the kubelet "
        "and the add-ons; use at most 13653, or larger nodes",
    ),
    (
        {"worker": {**WORKER, "cpu": "3800m"}},
        "worker.cpu: 3.8 vCPUs are more than a m7i.xlarge of the system nodes has left beside the kubelet and "
        'the add-ons; use at most "3730m", or larger nodes',
    ),
    (
        {"worker": {**WORKER, "memoryMiB": 16_384}},
        "worker.memoryMiB: 16384 MiB are more than a m7i.xlarge of the system nodes has left beside the kubelet and"
        " the add-ons; use at most 13685, or larger nodes",
    ),
    (
        {"nodes.system.instanceTypes": ["m7i.large", "m7i.large"]},
        "nodes.system.instanceTypes[1]: 'm7i.large' is listed twice; list each type once",
    ),
    (
        {"triton.memoryGiB": 1},
        "triton.memoryGiB: 1 GiB do not hold 2048 MiB of /dev/shm, 4096 MiB for the server; give 6 or more",
    ),
    (
        {"monitoring": MONITORING, "triton.cpu": "3700m"},
        "triton.cpu: 3700m vCPUs are more than a g5.xlarge of pool 'g5' has left beside the kubelet and the "
        'add-ons; use at most "3570m"',
    ),
    (
        {"monitoring": MONITORING, "triton.memoryGiB": 14},
        "triton.memoryGiB: 14 GiB are more than a g5.xlarge of pool 'g5' has left beside the kubelet and the "
        "add-ons; use at most 12",
    ),
    (
        scaled(warmPods=50),
        "autoscaling.warmPods: 50 are more than the 2 pods that may come beyond minReplicas 1 (maxReplicas "
        "3), so that their nodes would wait in vain; give 0 to 2",
    ),
    (
        scaled(minReplicas=3, warmPods=1),
        "autoscaling.warmPods: 1 are more than the 0 pods that may come beyond minReplicas 3 (maxReplicas 3),"
        " so that their nodes would wait in vain; give 0",
    ),
    (
        scaled(targets={"resnet50": {"busy": 1.5}}),
        "autoscaling.targets.resnet50.busy: 1.5 instances are never busy in a pod that has 1; give up to 1, like 0.7",
    ),
    (
        scaled(targets={"resnet50": {}}),
        "autoscaling.targets.resnet50: is empty and changes nothing; give pending, busy or rate, or remove it",
    ),
    (
        {**SCALED, "models.serving": {"resnet50": {**MODEL, "peakRate": 200_000}}},
        "models.serving.resnet50.peakRate: 200000 requests a second are more than 3 pods of 3 vCPUs answer, "
        "whatever the model (20000 for a vCPU); give up to 180000, or more or larger pods",
    ),
    (
        {**UNPINNED, "triton.replicas": 1, "models.serving": {"resnet50": {**MODEL, "peakRate": 70_000}}},
        "models.serving.resnet50.peakRate: 70000 requests a second are more than 1 pod of 3 vCPUs answer, "
        "whatever the model (20000 for a vCPU); give up to 60000, or more or larger pods",
    ),
    (
        {**SCALED, "models.serving": {"resnet50": {**MODEL, "sloP95Ms": 1}}},
        "models.serving.resnet50.sloP95Ms: 1 is out of range; use 2 to 600000 ms",
    ),
    (
        scaled(cronFloor={**FLOOR, "start": "0 7 31 2 *"}),
        "autoscaling.cronFloor.start: '0 7 31 2 *' never comes: no month of it has that day; give a day that there is",
    ),
    (
        scaled(cronFloor={**FLOOR, "end": "0 7 31 apr,jun *"}),
        "autoscaling.cronFloor.end: '0 7 31 apr,jun *' never comes: no month of it has that day; give a day that there is",
    ),
    (
        scaled(cronFloor={**FLOOR, "end": "00 07 * * mon-fri"}),
        "autoscaling.cronFloor.end: it begins and ends at '0 7 * * 1-5'; give another end",
    ),
    (
        scaled(cronFloor={**FLOOR, "start": "*/1 * * * *", "end": "* * * * *"}),
        "autoscaling.cronFloor.end: it begins and ends at '*/1 * * * *'; give another end",
    ),
    (
        scaled(cronFloor={**FLOOR, "replicas": 1}),
        "autoscaling.cronFloor.replicas: 1 is what minReplicas keeps at all times; give 2 to 3",
    ),
    (
        scaled(prometheusUrl="http://prometheus.example.com:99999"),
        "autoscaling.prometheusUrl: 'http://prometheus.example.com:99999' is not the address of a Prometheus:"
        " '99999' is no port, which is 1 to 65535; give one like http://prometheus.observability.svc:9090",
    ),
    (
        scaled(prometheusUrl="http://300.1.1.1:9090"),
        "autoscaling.prometheusUrl: 'http://300.1.1.1:9090' is not the address of a Prometheus: '300.1.1.1' "
        "is no name of a host; give one like http://prometheus.observability.svc:9090",
    ),
    (
        scaled(prometheusUrl="http://-prometheus:9090"),
        "autoscaling.prometheusUrl: 'http://-prometheus:9090' is not the address of a Prometheus: "
        "'-prometheus' is no name of a host; give one like http://prometheus.observability.svc:9090",
    ),
    (
        scaled(prometheusUrl="http://" + "me:word" + "@prometheus.example.com:9090"),
        "autoscaling.prometheusUrl: it has a name or password in it, which would be read by everybody who "
        "reads this file; give one like http://prometheus.observability.svc:9090",
    ),
    (
        {
            **UNPINNED,
            "models.serving": {"resnet50": {**MODEL, "sloP95Ms": 30_000}},
            "worker": {**WORKER, "longestRequestSeconds": 30},
        },
        "worker.longestRequestSeconds: 30 s are less than the 60 s that a request of resnet50 may take (its "
        "time in the queue and its SLO of 30000 ms); give more",
    ),
    (
        {"worker": {**WORKER, "oldMessageMinutes": 1}},
        "worker.oldMessageMinutes: a request may take 60 s, so that one alone would raise the alarm; give more than 1",
    ),
    (
        {"models.release.previous": "3f2a9c1b7d04" + 52 * "0"},
        "models.release.previous: 3f2a9c1b7d04 is the release itself, to which nothing would be rolled back; "
        "remove it, or name another",
    ),
    (
        {"models.release.models.resnet50": 3, "models.release.others": {"resnet50": [1, 1]}},
        "models.release.others.resnet50: a version is listed twice; list each once",
    ),
    (
        {"cost": {"monthlyUsd": 100, "emails": ["on call@example.com"]}},
        "cost.emails[0]: 'on call@example.com' is not an e-mail address; give one like oncall@example.com",
    ),
    (
        {"cost": {"monthlyUsd": 100, "emails": ["oncall@example.com", "gpu@example.com", "OnCall@example.com"]}},
        "cost.emails[2]: OnCall@example.com is listed twice, in whatever case; remove one",
    ),
    *(
        (
            {"cost": {"monthlyUsd": 100, "emails": [f"oncall@{domain}"]}},
            f"cost.emails[0]: 'oncall@{domain}' is not an e-mail address; give one like oncall@example.com",
        )
        for domain in ("10.0.0.1", "example.123")
    ),
    *(
        (
            {"monitoring": {**MONITORING, "runbooks": f"https://wiki.example.com/{rest}"}},
            f"monitoring.runbooks: 'https://wiki.example.com/{rest}' is not an https address; give one like "
            "https://wiki.example.com/triton",
        )
        for rest in ("100%", "a%2", "?q=%zz")
    ),
    (
        {"cost": {"monthlyUsd": 100, "emails": ["a" * 65 + "@example.com"]}},
        "cost.emails[0]: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@example.com' is "
        "not an e-mail address; give one like oncall@example.com",
    ),
    ({"triton.pool": " "}, "triton.pool: ' ' is not a name; give a name"),
]

IN_PROD: list[tuple[dict[str, Any], str]] = [
    (
        {"gpu.pools[0].capacity": "spot"},
        "gpu.pools[0].capacity: prod invariant 'capacity that stays': AWS takes all spot nodes of Triton's "
        "pool 'g5' back when it likes, and nothing starts others; use on-demand, or nodes.autoscaler: "
        "karpenter, which falls back to it",
    ),
    (
        {"models.s3Endpoint": "https://minio.example.com:9000"},
        "models.s3Endpoint: prod invariant 'AWS itself': https://minio.example.com:9000 is another store than"
        " the one that this stack makes; remove it",
    ),
    (
        {"worker": {**WORKER, "awsEndpoint": "https://sqs.example.com"}},
        "worker.awsEndpoint: prod invariant 'AWS itself': https://sqs.example.com is another store than the "
        "one that this stack makes; remove it",
    ),
]

RIGHT: list[dict[str, Any]] = [
    {"triton.cpu": "3680m", "triton.memoryGiB": 12},
    {"monitoring": MONITORING, "triton.cpu": "3570m", "triton.memoryGiB": 12},
    {
        "aws:region": "us-gov-west-1",
        "network.zones": 2,
        "triton.image": f"{ECR.replace('us-west-2', 'us-gov-west-1')}/tritonserver@{DIGEST}",
        "cluster.adminRoleArns": ["arn:aws-us-gov:iam::123456789012:role/admin"],
    },
    {
        "aws:region": "cn-northwest-1",
        "network.zones": 2,
        "triton.image": f"123456789012.dkr.ecr.cn-northwest-1.amazonaws.com.cn/tritonserver@{DIGEST}",
        "cluster.adminRoleArns": ["arn:aws-cn:iam::123456789012:role/admin"],
    },
    {"aws:region": "mx-central-1", "network.zones": 2},
    {"cluster.adminRoleArns": ["arn:aws:iam::123456789012:role/platform/" + "a" * 64]},
    {"network.cidr": "10.30.0.0/22", "network.zones": 2},
    {"network.cidr": "100.64.0.0/16"},
    {"network.cidr": "198.19.0.0/20"},
    scaled(prometheusUrl="https://prometheus.example.com"),
    scaled(prometheusUrl="https://mimir.example.com/prometheus"),
    {"tracing": {"exporter": "otlp", "endpoint": "https://otlp.example.com", "keepPercent": 100}},
    {"tracing": {"exporter": "otlp", "endpoint": "https://otlp.example.com/tenant/v1/traces", "keepPercent": 100}},
    {"monitoring": {**MONITORING, "runbooks": "https://wiki.example.com/pages?space=ops&view=1#runbooks"}},
    {"cost": {"monthlyUsd": 100, "emails": ["first.last+oncall@" + "department-of-operations.example.org" + "a" * 12]}},
    {"cost": {"monthlyUsd": 100, "emails": ["a" * 55 + "@example.com"]}},
    {"gpu.pools[0].instanceTypes": ["g6e.xlarge"]},
    {"gpu.pools[0].instanceTypes": ["gr6.4xlarge"]},
    {"gpu.pools[1].instanceTypes": ["p5en.48xlarge"]},
    {"nodes.system.instanceTypes": ["c7i.xlarge"]},
    {"nodes.system.instanceTypes": ["m7i.4xlarge"]},
    {"models.s3Endpoint": "https://minio.example.com"},
    {"cost": {"monthlyUsd": 100, "emails": ["o'brien@example.com"]}},
    {"cost": {"monthlyUsd": 100, "emails": ["oncall@example.xn--p1ai", "oncall@4.example.c3"]}},
    {"monitoring": {**MONITORING, "runbooks": "https://wiki.example.com/a%20b?q=%C3%A9"}},
    reserved("us-west-2a", "cr-0123456789abcdef0"),
    reserved("us-west-2b", "cr-0123456789abcdef1"),
    described(),
    {"tags.owner": "Größe 1/2 = a+b@c_d"},
    scaled(cronFloor={**FLOOR, "start": "0 7 29 2 *", "end": "0 8 31 3 *"}),
    scaled(cronFloor={**FLOOR, "start": "0 7 31 2 mon", "end": "0 19 31 2 mon"}),
    scaled(warmPods=2),
    scaled(targets={"resnet50": {"busy": 1}}),
]

WARNED: list[tuple[dict[str, Any], str]] = [
    (
        {"cluster.apiAccess": REMOVED},
        "cluster.apiAccess: is missing: the endpoint is private, and its security group admits the nodes alone, so that no "
        "VPN or runner reaches the API server; list ranges in apiAccess.cidrs or groups in apiAccess.securityGroups, "
        "or go through a node: `python3 -m stackctl tunnel staging -- pulumi up --stack staging`",
    ),
    (
        {
            "worker": {
                **WORKER,
                "resultDays": 3,
                "alarmTopicArn": "arn:aws:sns:us-west-2:123456789012:oncall",
            }
        },
        "worker.resultDays: inputs are deleted after 3 days, and a message that names one may wait for 4 "
        "and would fail then; give 4 or more",
    ),
    (
        {"models.s3Endpoint": "http://localhost:9000"},
        "models.s3Endpoint: localhost is each pod itself, and nothing answers there; give an address in the network",
    ),
    (
        {
            "worker": {
                **WORKER,
                "awsEndpoint": "http://169.254.169.254",
                "alarmTopicArn": "arn:aws:sns:us-west-2:123456789012:oncall",
            }
        },
        "worker.awsEndpoint: 169.254.169.254 is each pod itself, and nothing answers there; give an address in the network",
    ),
    (
        {"triton.image": f"127.0.0.1:5000/tritonserver@{DIGEST}"},
        "triton.image: 127.0.0.1 is each node itself, and nothing answers there; give an address in the network",
    ),
    (
        {"monitoring": {**MONITORING, "alertTopicArn": "arn:aws:sns:eu-west-1:999999999999:oncall"}},
        "monitoring.alertTopicArn: it is of account 999999999999 and the stack of 123456789012 "
        "(aws:allowedAccountIds); nothing arrives there unless its policy lets this stack's account send",
    ),
    (
        {"network.cidr": "10.30.0.0/20"},
        "network.cidr: 10.30.0.0/20 gives each zone's private subnet 507 addresses, and nodes that are full "
        "of pods would need up to 1458 (prefix delegation, every node group at max); pods beyond them wait",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES)
def test_what_would_fail_later_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert complaints(changes) == [sentence]


@pytest.mark.parametrize(("changes", "sentence"), IN_PROD)
def test_prod_is_of_lasting_parts(changes: dict[str, Any], sentence: str) -> None:
    assert complaints(changes, "prod") == [sentence]
    assert settings(changes).environment == "staging"


@pytest.mark.parametrize("changes", RIGHT)
def test_what_is_right_is_taken(changes: dict[str, Any]) -> None:
    assert settings(changes).environment == "staging"


@pytest.mark.parametrize("zones", [1, ["us-west-2b"]])
@pytest.mark.parametrize("stack", ["local", "dev"])
def test_a_stack_that_is_nobodys_may_be_in_one_zone(zones: object, stack: str) -> None:
    assert settings({"environment": stack, "network.zones": zones}, stack).environment == stack


@pytest.mark.parametrize(("changes", "warning"), WARNED)
def test_what_may_be_meant_is_warned_about(changes: dict[str, Any], warning: str) -> None:
    assert [str(told) for told in settings(changes).warnings] == [warning]
