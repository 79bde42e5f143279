"""The kubeconfig of an EKS cluster."""

from __future__ import annotations

from spec import kubeconfig


def test_a_token_is_asked_for_by_the_clusters_name_and_region() -> None:
    made = kubeconfig.of_eks("shared", "eu-west-1", "https://example.eks.amazonaws.com", "Y2E=")
    assert made["clusters"] == [
        {
            "name": "shared",
            "cluster": {"server": "https://example.eks.amazonaws.com", "certificate-authority-data": "Y2E="},
        }
    ]
    [user] = made["users"]
    asked = " ".join([user["user"]["exec"]["command"], *user["user"]["exec"]["args"]])
    assert asked == "aws --region eu-west-1 eks get-token --cluster-name shared --output json"
    [context] = made["contexts"]
    assert context["context"] == {"cluster": "shared", "user": user["name"]}
    assert made["current-context"] == context["name"]


def test_a_proxy_is_in_it_only_where_there_is_one() -> None:
    made = kubeconfig.of_eks("shared", "eu-west-1", "https://example", "Y2E=", "http://127.0.0.1:1")
    assert made["clusters"][0]["cluster"]["proxy-url"] == "http://127.0.0.1:1"
