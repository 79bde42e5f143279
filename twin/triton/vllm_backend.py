"""Answer instead of Triton's backend `vllm`, without a language model: repeat the words of the prompt.

Triton runs this file as a python-based backend, so it imports nothing of this repository. Tensors, parameters, errors,
order of responses and metrics match the real backend
(https://github.com/triton-inference-server/vllm_backend/tree/8de0c14/src), except for NOT_HERE; a token is a word. It does
not complete configs: pods run with --disable-auto-complete-config. Its timing is a simple continuous batch. A step gives
each running sequence one token. New sequences get their prompt and first token. A step takes STEP_SECONDS, SEQUENCE_SECONDS
more for each running sequence and PROMPT_SECONDS more for each token of a new prompt. `max_num_seqs` sequences of
model.json run, others wait. These are round numbers, not measured on a GPU.
"""

from __future__ import annotations

import json
import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as triton

STAND_IN = "the twin's stand-in for the vllm backend"
STEP_SECONDS, SEQUENCE_SECONDS, PROMPT_SECONDS = 0.01, 0.001, 0.0002

NOT_HERE = {
    "image": "pictures",
    "embedding_request": "embeddings",
    "return_logprobs": "probabilities of tokens",
    "return_cumulative_logprob": "probabilities of tokens",
}
"""Input that requests a feature to the feature that the real backend has and this one refuses."""

_MOST_SEQUENCES, _MOST_TOKENS, _MAX_TOKENS = 256, 4096, 16
"""Defaults for `max_num_seqs` and `max_model_len` of model.json, and for `max_tokens` of a request.

In the real backend, the default of `max_model_len` is the model's.
"""
_PARAMETERS = frozenset(
    """n presence_penalty frequency_penalty repetition_penalty temperature top_p top_k min_p seed stop stop_token_ids
    bad_words ignore_eos max_tokens min_tokens logprobs prompt_logprobs detokenize skip_special_tokens
    spaces_between_special_tokens include_stop_str_in_output lora_name""".split()  # noqa: SIM905 - a list of them would be a page
)
"""Names in vLLM's SamplingParams; all but max_tokens control how a model chooses tokens, and have no effect here."""
_FINAL = triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL
_TOKENS = "Number of {} tokens processed."
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_WHOLE = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)


class TritonPythonModel:
    """One model; Triton calls its methods."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read model.json and start the engine. Raises TritonModelException."""
        config = json.loads(args["model_config"])
        if not triton.using_decoupled_model_transaction_policy(config):
            raise triton.TritonModelException(
                "vLLM Triton backend must be configured to use decoupled model transaction policy"
            )
        folder = Path(args["model_repository"], args["model_version"])
        try:
            arguments = json.loads((folder / "model.json").read_bytes())
        except (OSError, ValueError) as error:
            raise triton.TritonModelException(
                f"'model.json' containing vllm engine args must be provided in '{folder}': {error}"
            ) from None
        most_tokens = int(arguments.get("max_model_len") or _MOST_TOKENS)
        metrics = None
        reported = config.get("parameters", {}).get("REPORT_CUSTOM_METRICS", {}).get("string_value", "")
        if reported.lower() == "true" and not arguments.get("disable_log_stats"):
            metrics = _Metrics({"model": args["model_name"], "version": args["model_version"]}, most_tokens)
        self._engine = _Engine(int(arguments.get("max_num_seqs") or _MOST_SEQUENCES), most_tokens, metrics)
        triton.Logger.log_info(f"{args['model_name']}: this is {STAND_IN}: no language model, and a model of its time")

    def execute(self, requests: Sequence[Any]) -> None:
        """Pass the requests to the engine, which answers through the sender of each."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._engine.add(_Sequence(request, sender))
            except Exception as error:  # for any error, the request must be answered
                sender.send(_failed(f"Error generating stream: {error}"), flags=_FINAL)

    def finalize(self) -> None:
        """Answer the running requests, and stop the engine."""
        self._engine.end()


class _Sequence:
    """A request: its prompt, and the progress of its answer. Raises ValueError and others for an invalid request."""

    def __init__(self, request: Any, sender: Any) -> None:
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        for name, what in NOT_HERE.items():
            if name in given and (given[name].dtype == object or given[name][0]):
                raise ValueError(f"{STAND_IN} has no {what} ({name})")
        self.sender = sender
        self.prompt = given["text_input"][0].decode()
        self.prompt_tokens = self.prompt.split()
        if not self.prompt_tokens:
            raise ValueError("The decoder prompt cannot be empty")
        self.stream = bool(given["stream"][0]) if "stream" in given else False
        self.prepends = not self.stream
        if "exclude_input_in_output" in given:
            self.prepends = not given["exclude_input_in_output"][0]
        if self.prepends and self.stream:
            raise ValueError("When streaming, `exclude_input_in_output` = False is not allowed.")
        self._returned = {name for name in given if name.startswith("return_") and given[name][0]}
        said = given["sampling_parameters"][0].decode() if "sampling_parameters" in given else request.parameters()
        parameters = json.loads(said)
        if unknown := sorted(parameters.keys() - _PARAMETERS):
            raise ValueError(f"Unexpected keyword argument '{unknown[0]}'")
        if parameters.get("lora_name") is not None:
            raise ValueError("LoRA feature is not enabled.")
        if int(parameters.get("n") or 1) != 1:
            raise ValueError(f"{STAND_IN} has no several answers to a prompt (n)")
        wanted = parameters.get("max_tokens")
        self.wanted = _MAX_TOKENS if wanted is None else int(wanted)
        if self.wanted < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.wanted}.")
        self.began = self.token_at = time.monotonic()
        self.made = self._sent = 0
        self.is_left = False

    def response(self) -> Any:
        """Return the tokens that were in no response yet."""
        words = [self.prompt_tokens[index % len(self.prompt_tokens)] for index in range(self._sent, self.made)]
        text = "".join(f" {word}" for word in words)
        tensors = {"text_output": [(self.prompt + text if self.prepends and not self._sent else text).encode()]}
        outputs = [triton.Tensor(name, np.array(value, dtype=object)) for name, value in tensors.items()]
        if "return_finish_reason" in self._returned:
            reason = b"length" if self.is_done else b"None"
            outputs.append(triton.Tensor("finish_reason", np.array([reason], dtype=object)))
        if "return_num_input_tokens" in self._returned:
            outputs.append(triton.Tensor("num_input_tokens", np.array(len(self.prompt_tokens), dtype=np.uint32)))
        if "return_num_output_tokens" in self._returned:
            outputs.append(triton.Tensor("num_output_tokens", np.array([len(words)], dtype=np.uint32)))
        self._sent = self.made
        return triton.InferenceResponse(outputs)

    @property
    def is_done(self) -> bool:
        """Return whether all its tokens have been generated."""
        return self.made >= self.wanted


class _Engine:
    """A thread that generates tokens, and one that sends them, as in the real backend."""

    def __init__(self, most_sequences: int, most_tokens: int, metrics: _Metrics | None) -> None:
        self._most_sequences, self._most_tokens, self._metrics = most_sequences, most_tokens, metrics
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._changed = threading.Condition()
        self._ends = False
        self._responses: queue.SimpleQueue[tuple[_Sequence, Any, int] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=target) for target in (self._generate, self._send)]
        for thread in self._threads:
            thread.start()

    def add(self, sequence: _Sequence) -> None:
        """Add a sequence to the queue. Raises ValueError for more tokens than the model has room for."""
        length = len(sequence.prompt_tokens)
        if length >= self._most_tokens:
            raise ValueError(
                f"The decoder prompt (length {length}) is longer than the maximum model length of {self._most_tokens}. "
                "Make sure that `max_model_len` is no smaller than the number of text tokens."
            )
        sequence.wanted = min(sequence.wanted, self._most_tokens - length)
        with self._changed:
            self._waiting.append(sequence)
            self._changed.notify()

    def end(self) -> None:
        """Answer the remaining sequences, and stop the threads."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        for thread in self._threads:
            thread.join()

    def _generate(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ends or self._waiting or self._running)
                if not (self._waiting or self._running):
                    self._responses.put(None)
                    return
                fresh = [self._waiting.popleft() for _ in range(self._most_sequences - len(self._running)) if self._waiting]
            try:
                self._step(fresh)
            except Exception:  # a thread that exits would leave every client without an answer
                triton.Logger.log_error(f"[vllm] {traceback.format_exc()}")

    def _step(self, fresh: list[_Sequence]) -> None:
        self._running += fresh
        prompts = sum(len(one.prompt_tokens) for one in fresh)
        time.sleep(STEP_SECONDS + SEQUENCE_SECONDS * len(self._running) + PROMPT_SECONDS * prompts)
        now = time.monotonic()
        for one in list(self._running):
            one.made += 1
            if self._metrics is not None:
                self._metrics.count(one, now)
            one.token_at = now
            if one.is_left or (not one.stream and one.sender.is_cancelled()):
                self._running.remove(one)
                error = triton.TritonError("Request was cancelled", triton.TritonError.CANCELLED)
                self._responses.put((one, triton.InferenceResponse([], error), _FINAL))
                continue
            if one.is_done:
                self._running.remove(one)
            if one.stream or one.is_done:
                self._responses.put((one, one.response(), _FINAL if one.is_done else 0))

    def _send(self) -> None:
        while (item := self._responses.get()) is not None:
            sequence, response, flags = item
            try:
                sequence.sender.send(response, flags)
                if flags != _FINAL and sequence.sender.is_cancelled():
                    sequence.is_left = True
            except Exception:  # the next response must still be sent
                triton.Logger.log_error(f"[vllm] An error occurred while sending a response: {traceback.format_exc()}")


class _Metrics:
    """The metrics of the real backend's `utils/metrics.py`, with its names, labels and buckets."""

    def __init__(self, labels: Mapping[str, str], most_tokens: int) -> None:
        self._families: list[Any] = []
        """Kept here, because a family's metrics disappear when it is garbage-collected."""
        self._labels = labels
        steps = list(_1_2_5(most_tokens))
        self._prompts = self._metric("prompt_tokens_total", _TOKENS.format("prefill"))
        self._generated = self._metric("generation_tokens_total", _TOKENS.format("generation"))
        self._first = self._metric("time_to_first_token_seconds", "Histogram of time to first token in seconds.", _FIRST)
        self._between = self._metric(
            "time_per_output_token_seconds", "Histogram of time per output token in seconds.", _BETWEEN
        )
        self._whole = self._metric(
            "e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", _WHOLE
        )
        self._prompt = self._metric("request_prompt_tokens", _TOKENS.format("prefill"), steps)
        self._answer = self._metric("request_generation_tokens", _TOKENS.format("generation"), steps)
        self._n = self._metric("request_params_n", "Histogram of the n request parameter.", (1, 2, 5, 10, 20))

    def _metric(self, name: str, description: str, buckets: Sequence[float] | None = None) -> Any:
        kind = triton.MetricFamily.COUNTER if buckets is None else triton.MetricFamily.HISTOGRAM
        family = triton.MetricFamily(name=f"vllm:{name}", description=description, kind=kind)
        self._families.append(family)
        if buckets is None:
            return family.Metric(labels=self._labels)
        return family.Metric(labels=self._labels, buckets=list(buckets))

    def count(self, sequence: _Sequence, now: float) -> None:
        """Count one more token of a sequence."""
        self._generated.increment(1)
        if sequence.made == 1:
            self._prompts.increment(len(sequence.prompt_tokens))
            self._first.observe(now - sequence.began)
            self._n.observe(1)
        else:
            self._between.observe(now - sequence.token_at)
        if sequence.is_done:
            self._whole.observe(now - sequence.began)
            self._prompt.observe(len(sequence.prompt_tokens))
            self._answer.observe(sequence.made)


def _1_2_5(most: int) -> Iterator[float]:
    """Yield 1, 2, 5, 10, 20, … up to `most`, like vLLM's `build_1_2_5_buckets`."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power > most:
                return
            yield digit * power
        power *= 10


def _failed(message: str) -> Any:
    text = triton.Tensor("text_output", np.array([b"N/A"], dtype=object))
    return triton.InferenceResponse([text], triton.TritonError(message))
