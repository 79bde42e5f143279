"""Cases of policies about the VPC."""

from tests.policies.case import ABSENT, Case, fail, made
from triton_policies.network import (
    DEFAULT_GROUP,
    ENDPOINT,
    FLOW_LOG,
    GROUP,
    INGRESS_RULE,
    NAT,
    RULE,
    SUBNET,
    VPC,
)

_VPC = made(VPC, "vpc", {"id": "vpc-1"})
_ENDPOINTS = (
    *(
        made(ENDPOINT, service, {"serviceName": f"com.amazonaws.us-west-2.{service}"})
        for service in ("s3", "ecr.api", "ecr.dkr")
    ),
    made(ENDPOINT, "sts", {"serviceName": "cn.com.amazonaws.cn-north-1.sts"}),
)


def _private(zone: str) -> dict[str, object]:
    return {"availabilityZone": zone, "tags": {"kubernetes.io/role/internal-elb": "1"}}


CASES = (
    Case(
        policy="vpc-flow-logs",
        type="",
        passes=(_VPC, made(FLOW_LOG, "log", {"trafficType": "ALL"}, vpcId="vpc")),
        fails=(
            fail(
                {"log": ABSENT},
                (
                    "vpc: has no flow log: who talked to whom cannot be found out afterwards. "
                    "Fix: make an aws.ec2.FlowLog for it with trafficType ALL"
                ),
            ),
            fail(
                {"log": {"trafficType": "REJECT"}},
                ("log: trafficType: is REJECT: the rest of the traffic is not logged. Fix: set it to ALL"),
            ),
        ),
        unknown=("log", "trafficType"),
    ),
    Case(
        policy="vpc-endpoints-present",
        type="",
        passes=(_VPC, *_ENDPOINTS),
        fails=(
            fail(
                {"ecr.dkr": ABSENT, "s3": ABSENT},
                (
                    "vpc: has no endpoint for s3: that traffic goes through the internet. "
                    "Fix: make the endpoint: of type Gateway for s3, Interface for the others"
                ),
                (
                    "vpc: has no endpoint for ecr.dkr: that traffic goes through the internet. "
                    "Fix: make the endpoint: of type Gateway for s3, Interface for the others"
                ),
            ),
        ),
        unknown=("vpc", "id"),
    ),
    Case(
        policy="sg-no-world-ingress",
        type=INGRESS_RULE,
        passes={"cidrIpv4": "10.0.0.0/8", "fromPort": 443, "toPort": 443, "ipProtocol": "tcp"},
        fails=(
            fail(
                {"cidrIpv4": "0.0.0.0/0"},
                (
                    "it: cidrIpv4: is 0.0.0.0/0: anyone on the internet may come in by port 443. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
            # Half of the internet; two such ranges cover all of it.
            fail(
                {"cidrIpv4": "128.0.0.0/1"},
                (
                    "it: cidrIpv4: is 128.0.0.0/1: anyone on the internet may come in by port 443. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
            fail(
                {"cidrIpv4": ABSENT, "cidrIpv6": "::/0", "fromPort": 8000, "toPort": 8002},
                (
                    "it: cidrIpv6: is ::/0: anyone on the internet may come in by ports 8000-8002. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
            fail(
                {"cidrIpv4": "0.0.0.0/0", "fromPort": 22, "toPort": 22, "tags": {"public-load-balancer": "true"}},
                (
                    "it: cidrIpv4: is 0.0.0.0/0: anyone on the internet may come in by port 22. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
            fail(
                {"cidrIpv4": "0.0.0.0/0", "fromPort": ABSENT, "toPort": ABSENT},
                (
                    "it: cidrIpv4: is 0.0.0.0/0: anyone on the internet may come in by every port. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
        ),
        unknown="cidrIpv4",
    ),
    Case(
        policy="sg-no-world-ingress",
        type=INGRESS_RULE,
        passes={"cidrIpv4": "0.0.0.0/0", "fromPort": 443, "toPort": 443, "tags": {"public-load-balancer": "true"}},
        fails=(),
        unknown=None,
    ),
    Case(
        policy="sg-no-world-ingress",
        type=GROUP,
        passes={"ingress": [{"cidrBlocks": ["10.0.0.0/8"], "fromPort": 22, "toPort": 22}]},
        fails=(
            fail(
                {"ingress[0].cidrBlocks": ["10.0.0.0/8", "0.0.0.0/0"]},
                (
                    "it: ingress[0].cidrBlocks[1]: is 0.0.0.0/0: anyone on the internet may come in by port 22. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
            fail(
                {"ingress[0].ipv6CidrBlocks": ["::/0"]},
                (
                    "it: ingress[0].ipv6CidrBlocks[0]: is ::/0: anyone on the internet may come in by port 22. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
        ),
        unknown="ingress[0].cidrBlocks",
    ),
    Case(
        policy="sg-no-world-ingress",
        type=RULE,
        passes={"type": "ingress", "cidrBlocks": ["10.0.0.0/8"], "fromPort": 22, "toPort": 22},
        fails=(
            fail(
                {"cidrBlocks[0]": "0.0.0.0/0"},
                (
                    "it: cidrBlocks[0]: is 0.0.0.0/0: anyone on the internet may come in by port 22. "
                    "Fix: name the networks that may; for a public load balancer, port 443 alone and the tag "
                    "public-load-balancer=true"
                ),
            ),
        ),
        unknown="type",
    ),
    Case(
        policy="sg-default-locked",
        type="",
        passes=(_VPC, made(DEFAULT_GROUP, "default", {"vpcId": "vpc-1"})),
        fails=(
            fail(
                {"default": ABSENT},
                (
                    "vpc: leaves its default security group as AWS makes it: what names no group is in it. "
                    "Fix: make an aws.ec2.DefaultSecurityGroup for the VPC without ingress and egress"
                ),
            ),
            fail(
                {"default": {"ingress": [{"protocol": "-1"}]}},
                (
                    "default: ingress: has rules: what forgets to name its group is open instead of cut off. "
                    "Fix: leave it out"
                ),
            ),
        ),
        unknown=("default", "ingress"),
    ),
    Case(
        policy="nat-ha-in-prod",
        type="",
        passes=(
            _VPC,
            made(SUBNET, "a", _private("us-west-2a")),
            made(SUBNET, "b", _private("us-west-2b")),
            made(NAT, "nat-a"),
            made(NAT, "nat-b"),
        ),
        fails=(
            fail(
                {"nat-b": ABSENT},
                (
                    "vpc: has 1 NAT gateways for 2 zones: one zone down takes the others' way out along. "
                    "Fix: make one NAT gateway per zone"
                ),
            ),
        ),
        unknown=("a", "availabilityZone"),
    ),
    Case(
        policy="subnet-no-public-address",
        type=SUBNET,
        passes={"mapPublicIpOnLaunch": False},
        fails=(
            fail(
                {"mapPublicIpOnLaunch": True},
                (
                    "it: mapPublicIpOnLaunch: is true: what starts here is on the internet. "
                    "Fix: set mapPublicIpOnLaunch to false"
                ),
            ),
        ),
        unknown="mapPublicIpOnLaunch",
    ),
    Case(
        policy="region-allowed",
        type="pulumi:providers:aws",
        passes={"region": "us-west-2"},
        fails=(
            fail(
                {"region": "eu-central-1"},
                (
                    "it: region: is eu-central-1, outside of us-west-2: customers' data may not go there. "
                    "Fix: use an allowed region, or put this one into `regions` of this policy"
                ),
            ),
        ),
        unknown="region",
    ),
    Case(
        policy="region-allowed",
        type=SUBNET,
        passes={"availabilityZone": "us-west-2a"},
        fails=(
            fail(
                {"availabilityZone": "us-east-1a"},
                (
                    "it: availabilityZone: is us-east-1a, outside of us-west-2: customers' data may not go there. "
                    "Fix: use an allowed region, or put this one into `regions` of this policy"
                ),
            ),
        ),
        unknown="availabilityZone",
    ),
    Case(
        policy="region-allowed",
        type=SUBNET,
        passes={"availabilityZone": "eu-west-1a"},
        fails=(
            fail(
                {"availabilityZone": "us-west-2a"},
                (
                    "it: availabilityZone: is us-west-2a, outside of eu-central-1, eu-west-1: customers' data may not go "
                    "there. Fix: use an allowed region, or put this one into `regions` of this policy"
                ),
            ),
        ),
        unknown="availabilityZone",
        config={"regions": ["eu-central-1", "eu-west-1"]},
    ),
    Case(
        policy="region-allowed",
        type=SUBNET,
        passes={},
        fails=(
            fail(
                {"availabilityZone": "us-west-2a"},
                (
                    "it: availabilityZone: is us-west-2a, outside of those that nobody has named: customers' data may not "
                    "go there. Fix: use an allowed region, or put this one into `regions` of this policy"
                ),
            ),
        ),
        unknown="availabilityZone",
        region=None,
    ),
)
