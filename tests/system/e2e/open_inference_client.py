"""Runs the Open Inference Protocol's own clients against a gateway, and prints the response of each call as JSON.

It is a separate process, because these clients and tritonclient use the same names for their protobuf types.

    python -m tests.system.e2e.open_inference_client HTTP_ADDRESS GRPC_ADDRESS
"""

from __future__ import annotations

import json
import sys
from typing import Any

import grpc
from open_inference.grpc import protocol
from open_inference.grpc.service import GRPCInferenceServiceStub
from open_inference.openapi.client import OpenInferenceClient
from open_inference.openapi.types import InferenceRequest, RequestInput, TensorData

MODEL, VALUES = "classify", [5.25, 3.5, 1.75, 0.25]


def over_http(address: str) -> dict[str, Any]:
    """Call every function of the client."""
    client = OpenInferenceClient(base_url=f"http://{address}")
    client.check_server_liveness()
    client.check_server_readiness()
    client.check_model_readiness(MODEL)
    client.check_model_version_readiness(MODEL, "1")
    tensor = RequestInput(name="NORMALIZED", shape=[1, 4], datatype="FP32", data=TensorData(__root__=VALUES))
    request = InferenceRequest(inputs=[tensor])
    answers = [client.model_infer(MODEL, request=request), client.model_version_infer(MODEL, "1", request=request)]
    return {
        "server": client.read_server_metadata().name,
        "models": [client.read_model_metadata(MODEL).name, client.read_model_version_metadata(MODEL, "1").name],
        "outputs": [sorted(output.name for output in answer.outputs) for answer in answers],
    }


def over_grpc(address: str) -> dict[str, Any]:
    """Call every function of the client."""
    with grpc.insecure_channel(address) as channel:
        stub = GRPCInferenceServiceStub(channel)
        tensor = protocol.ModelInferRequest.InferInputTensor(name="NORMALIZED", datatype="FP32", shape=[1, 4])
        tensor.contents.fp32_contents.extend(VALUES)
        answer = stub.ModelInfer(protocol.ModelInferRequest(model_name=MODEL, inputs=[tensor]))
        return {
            "live": stub.ServerLive(protocol.ServerLiveRequest()).live,
            "ready": stub.ServerReady(protocol.ServerReadyRequest()).ready,
            "model ready": stub.ModelReady(protocol.ModelReadyRequest(name=MODEL)).ready,
            "server": stub.ServerMetadata(protocol.ServerMetadataRequest()).name,
            "model": stub.ModelMetadata(protocol.ModelMetadataRequest(name=MODEL)).name,
            "outputs": sorted(output.name for output in answer.outputs),
        }


if __name__ == "__main__":
    print(json.dumps({"http": over_http(sys.argv[1]), "grpc": over_grpc(sys.argv[2])}))
