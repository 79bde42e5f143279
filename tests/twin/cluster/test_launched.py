"""The user data of an instance, for its kubelet."""

from infra.aws.launch import MODEL_CACHE_SCRIPT, mime_archive, node_config
from twin.cluster.launched import KubeletSettings, kubelet_settings

KARPENTERS = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {apiServerEndpoint: https://example, certificateAuthority: Y2E=, cidr: 172.20.0.0/16, name: triton-prod}
  instance:
    localStorage: {strategy: RAID0}
  kubelet:
    config:
      maxPods: 58
      registerWithTaints:
      - {effect: NoSchedule, key: nvidia.com/gpu, value: present}
      - {effect: NoExecute, key: karpenter.sh/unregistered}
    flags:
    - --node-labels="karpenter.sh/nodepool=g5,triton-eks/pool=g5"

--//--
"""


def test_labels_taints_and_pods_are_those_of_karpenters_configuration() -> None:
    assert kubelet_settings(KARPENTERS) == KubeletSettings(
        "triton-prod",
        {"karpenter.sh/nodepool": "g5", "triton-eks/pool": "g5"},
        [
            {"effect": "NoSchedule", "key": "nvidia.com/gpu", "value": "present"},
            {"effect": "NoExecute", "key": "karpenter.sh/unregistered"},
        ],
        58,
    )


def test_what_a_node_class_adds_stands_beside_it_and_takes_nothing_away() -> None:
    ours = mime_archive(node_config({}, parallel_image_pull=True), [MODEL_CACHE_SCRIPT]).rpartition("--//--")[0]
    merged = ours + KARPENTERS.partition("\n\n")[2]
    assert kubelet_settings(merged) == kubelet_settings(KARPENTERS)
