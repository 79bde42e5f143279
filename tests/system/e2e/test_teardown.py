"""`make destroy` on the real engine deletes all resources of the stack and no others, and the search confirms it."""

import sys

from tests.system.e2e import account
from tests.system.e2e.conftest import Twin


def test_a_stack_goes_in_phases_and_leaves_what_is_not_its_own(own_twin: Twin) -> None:
    own_twin.up()
    aws = own_twin.servers().aws_url
    ec2 = account.client(aws, "ec2")
    strangers = ec2.create_volume(AvailabilityZone="us-west-2a", Size=1)["VolumeId"]

    unnamed = own_twin.shell(f"{sys.executable} -m stackctl destroy local </dev/null")
    assert (unnamed.returncode, unnamed.stderr.splitlines()[-1]) == (
        2,
        "error: nothing was deleted: to delete local, say so: make destroy STACK=local CONFIRM=local",
    )
    done = own_twin.shell(f"{sys.executable} -m stackctl destroy local --confirm local", seconds=900)

    assert done.returncode == 0, done.stdout + done.stderr
    phases = [line.partition(" (")[0] for line in done.stdout.splitlines() if line.startswith("every")]
    assert phases == [
        "everything else in the cluster",
        "everything: nodes, add-ons, cluster, network, in the order of their dependencies",
    ]
    assert done.stdout.splitlines()[-2:] == [
        "local: nothing is left in AWS",
        "To remove the empty stack from Pulumi's state too: pulumi stack rm local --preserve-config",
    ]
    assert account.leftovers(aws) == {}
    assert strangers in [volume["VolumeId"] for volume in ec2.describe_volumes()["Volumes"]]
    assert own_twin.shell(f"{sys.executable} -m stackctl orphans local").stdout == "local: nothing is left in AWS\n"
