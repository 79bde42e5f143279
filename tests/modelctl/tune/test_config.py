"""Triton's config for a candidate, compared with the served config."""

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from modelctl.tune.candidate import Candidate, Space, configured
from modelctl.tune.server import differences

BASE = """
name: "m" backend: "python" max_batch_size: 12
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] } ]
dynamic_batching {
  preferred_batch_size: [ 8, 12 ]
  max_queue_delay_microseconds: 100000
  default_queue_policy { max_queue_size: 64 }
}
instance_group [ { kind: KIND_CPU count: 3 } ]
response_cache { enable: true }
model_warmup [ { name: "full" batch_size: 12 count: 1 inputs { key: "X" value { data_type: TYPE_FP32 dims: [ 4 ] } } } ]
"""


def config(text: str = BASE) -> ModelConfig:
    return text_format.Parse(text, ModelConfig())


def test_a_candidate_changes_batching_and_instances_and_nothing_else() -> None:
    expected = config(
        BASE.replace("max_batch_size: 12", "max_batch_size: 4")
        .replace("preferred_batch_size: [ 8, 12 ]", "")
        .replace("100000", "250")
        .replace("count: 3", "count: 2")
        .replace("response_cache { enable: true }", "")
        .replace("batch_size: 12 count: 1", "batch_size: 4 count: 1")
    )

    assert configured(config(), Candidate(4, 250, 2)) == expected


def test_the_base_stays_as_it_is() -> None:
    base = config()

    configured(base, Candidate(1, 0, 1))

    assert base == config()


def test_no_batching_is_without_the_batcher() -> None:
    made = configured(config(), Candidate(1, 0, 2))

    assert (made.max_batch_size, made.instance_group[0].count) == (1, 2)
    assert not made.HasField("dynamic_batching")


def test_a_model_without_a_batch_dimension_gets_instances_only() -> None:
    base = config('name: "m" backend: "python"')

    made = configured(base, Candidate(0, 0, 3))

    assert made.instance_group == [ModelInstanceGroup(kind=ModelInstanceGroup.KIND_AUTO, count=3)]
    assert not made.HasField("dynamic_batching")
    assert Space.of(base, 3) == Space((0,), (0,), (1, 2, 3))


def test_batches_are_tried_up_to_what_the_model_allows() -> None:
    assert Space.of(config(), 2).batch_sizes == (1, 2, 4, 8, 12)


def test_the_space_counts_each_candidate_once() -> None:
    space = Space((1, 2, 4), (0, 100), (1, 2))

    every = {space.candidate(size, delay, n) for size in space.batch_sizes for delay in space.delays_us for n in (1, 2)}

    assert len(every) == space.size == 10


def test_neighbours_are_one_step_away_the_simpler_first() -> None:
    space = Space((1, 2, 4), (0, 100), (1, 2))

    assert space.neighbours(Candidate(2, 100, 1)) == [
        Candidate(2, 0, 1),
        Candidate(1, 0, 1),
        Candidate(2, 100, 2),
        Candidate(4, 100, 1),
    ]
    assert space.neighbours(Candidate(4, 0, 2)) == [Candidate(4, 0, 1), Candidate(2, 0, 2)]


def test_a_model_of_sequences_keeps_its_batcher() -> None:
    oldest = config(
        'name: "s" backend: "python" max_batch_size: 8 sequence_batching { oldest { max_candidate_sequences: 32 '
        "preferred_batch_size: [ 8 ] } }"
    )
    made = configured(oldest, Candidate(4, 250, 2))
    assert not made.HasField("dynamic_batching")
    assert (made.max_batch_size, made.instance_group[0].count) == (4, 2)
    chosen = made.sequence_batching.oldest
    assert (chosen.max_queue_delay_microseconds, chosen.max_candidate_sequences, list(chosen.preferred_batch_size)) == (
        250,
        32,
        [],
    )


def test_in_a_place_of_its_own_a_sequence_waits_for_nobody() -> None:
    for strategy in ("direct { }", ""):
        direct = config(f'name: "s" backend: "python" max_batch_size: 8 sequence_batching {{ {strategy} }}')
        assert Space.of(direct, 1).delays_us == (0,)
    oldest = config('name: "s" backend: "python" max_batch_size: 8 sequence_batching { oldest { } }')
    assert Space.of(oldest, 1).delays_us == (0, 100, 250, 500, 1000)


def test_what_a_server_fills_in_is_no_difference() -> None:
    served = configured(config(), Candidate(4, 0, 2))
    served.instance_group[0].name = "m_0"
    served.default_model_filename = "model.py"
    served.version_policy.latest.num_versions = 1

    assert list(differences(configured(config(), Candidate(4, 0, 2)), served)) == []


def test_every_field_that_is_served_otherwise_is_named() -> None:
    wanted, served = configured(config(), Candidate(4, 250, 2)), configured(config(), Candidate(8, 500, 3))
    wanted.parameters["a"].string_value = "1"
    served.input[0].dims[0] = 5
    del served.output[:]

    assert sorted(differences(wanted, served)) == [
        "dynamic_batching.max_queue_delay_microseconds is 500, not 250",
        "input[0].dims[0] is 5, not 4",
        "instance_group[0].count is 3, not 2",
        "max_batch_size is 8, not 4",
        "model_warmup[0].batch_size is 8, not 4",
        "output has 0 entries, not 1",
        "parameters[a] differs",
    ]
