"""Call a decoupled model over a gRPC stream: one request, many responses, the last one flagged as final.

A stream is never retried, because part of the answer has been read. A stream without its final flag is an error, not a short
answer.

    python -m examples.stream_client 127.0.0.2:8001 "to be or not" --words 6
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import grpc
import numpy as np
import typer
from tritonclient.grpc.aio import InferenceServerClient

from examples import gateway
from examples.failures import CallFailed, sentences
from examples.tensors import to_inputs

FINAL = "triton_final_response"
WITH_CODES = "triton_grpc_error"
"""Requests a model's failure as the stream's gRPC status. If the server refuses a request before it calls the model, the
response still has a text and no code.
"""


@dataclass(frozen=True)
class Prompt:
    """The prompt text, and the number of words to generate."""

    text: str
    words: int


@dataclass(frozen=True)
class Word:
    """One response: its request's id, and whether it is that request's last response."""

    request: str
    text: str
    final: bool


async def generate(
    target: str, prompts: Mapping[str, Prompt], model: str = "generate", deadline_seconds: float = 30.0
) -> AsyncIterator[Word]:
    """Yield the words of all prompts (by request id) as they come, over one stream. Raises CallFailed.

    If the caller stops reading early, the stream ends and the server stops generating.
    """
    unfinished = set(prompts)
    async with InferenceServerClient(target) as client:
        answers = client.stream_infer(
            _requests(prompts, model),
            stream_timeout=deadline_seconds,
            headers={**gateway.headers(model), WITH_CODES: "true"},
        )
        try:
            async for result, error in answers:
                if error is not None:
                    code = "NOT_FOUND" if "unknown model" in error.message() else "INVALID_ARGUMENT"
                    raise CallFailed(code, error.message())
                response = result.get_response()
                final = response.parameters[FINAL].bool_param
                if final:
                    unfinished.discard(response.id)
                yield Word(response.id, result.as_numpy("WORD")[0].decode(), final)
        except grpc.RpcError as error:
            raise CallFailed(error.code().name, error.details() or "") from None
        finally:
            answers.cancel()
    if unfinished:
        raise CallFailed("UNAVAILABLE", f"the stream ended before the answer to {', '.join(sorted(unfinished))}")


async def _requests(prompts: Mapping[str, Prompt], model: str) -> AsyncIterator[dict[str, Any]]:
    for name, prompt in prompts.items():
        arrays = {
            "PROMPT": np.array([prompt.text.encode()], dtype=np.object_),
            "WORDS": np.array([prompt.words], dtype=np.int32),
        }
        yield {"model_name": model, "inputs": to_inputs(arrays), "request_id": name}


def main(
    target: Annotated[str, typer.Argument(help="<host>:8001, or dns:///<headless Service>:8001")],
    prompt: Annotated[str, typer.Argument(help="The words to begin with.")],
    model: Annotated[str, typer.Option(help="A model with the inputs of the sample `generate`.")] = "generate",
    words: Annotated[int, typer.Option(help="How many words to generate.")] = 8,
    deadline: Annotated[float, typer.Option(min=0.001, help="Seconds for the whole answer.")] = 30.0,
) -> None:
    """Print the words that the model generates, as they come."""
    with sentences(target):
        asyncio.run(_print_words(target, model, Prompt(prompt, words), deadline))


async def _print_words(target: str, model: str, prompt: Prompt, deadline: float) -> None:
    async for word in generate(target, {"1": prompt}, model, deadline):
        typer.echo(word.text, nl=word.final)
        if not word.final:
            typer.echo(" ", nl=False)


if __name__ == "__main__":
    typer.run(main)
