"""User data of the nodes, read as cloud-init and nodeadm read it, and invalid launch templates."""

from email import message_from_string
from email.message import Message
from typing import Any

import yaml

from infra.aws.launch import user_data


def _part(text: str) -> Message:
    """Return the only part of the MIME archive."""
    archive = message_from_string(text)
    assert archive["MIME-Version"] == "1.0"
    assert archive.get_content_type() == "multipart/mixed"
    assert archive.defects == []
    parts = archive.get_payload()
    assert isinstance(parts, list)
    (part,) = parts
    assert isinstance(part, Message)
    return part


def _config(max_pods: int, *, local_nvme: bool) -> dict[str, Any]:
    return yaml.safe_load(str(_part(user_data(max_pods, local_nvme)).get_payload()))


def test_nodeadm_gets_the_number_of_pods_in_a_mime_part_of_its_own_type() -> None:
    assert _part(user_data(110, False)).get_content_type() == "application/node.eks.aws"
    assert _config(110, local_nvme=False) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"kubelet": {"config": {"maxPods": 110}}},
    }


def test_the_instance_store_becomes_one_array_that_pods_and_images_live_on() -> None:
    assert _config(250, local_nvme=True)["spec"] == {
        "kubelet": {"config": {"maxPods": 250}},
        "instance": {"localStorage": {"strategy": "RAID0"}},
    }


def test_the_same_nodes_get_the_same_bytes_so_that_no_node_is_replaced_for_nothing() -> None:
    assert user_data(110, True) == "\n".join(
        [
            "MIME-Version: 1.0",
            'Content-Type: multipart/mixed; boundary="//"',
            "",
            "--//",
            "Content-Type: application/node.eks.aws",
            "",
            "apiVersion: node.eks.aws/v1alpha1",
            "kind: NodeConfig",
            "spec:",
            "  instance:",
            "    localStorage:",
            "      strategy: RAID0",
            "  kubelet:",
            "    config:",
            "      maxPods: 110",
            "",
            "--//--",
            "",
        ]
    )


def test_the_folder_in_which_pods_share_releases_is_made_before_the_node_joins() -> None:
    archive = message_from_string(user_data(110, True, model_cache=True))
    config, script = archive.get_payload()
    assert isinstance(config, Message) and isinstance(script, Message)
    assert config.get_payload() == _part(user_data(110, True)).get_payload()
    assert script.get_content_type() == "text/x-shellscript"
    assert script.get_payload() == "#!/bin/bash\ninstall -d -o 1000 -g 1000 -m 0750 /var/lib/kubelet/model-cache\n"


def test_parallel_pulls_are_a_feature_gate_of_the_node_and_without_them_there_is_none() -> None:
    config = yaml.safe_load(str(_part(user_data(110, True, parallel_image_pull=True)).get_payload()))
    assert config["spec"] == {**_config(110, local_nvme=True)["spec"], "featureGates": {"FastImagePull": True}}
    assert "featureGates" not in _config(110, local_nvme=True)["spec"]
