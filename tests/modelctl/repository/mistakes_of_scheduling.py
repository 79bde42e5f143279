"""Mistakes in the queue, the instances and the warm-up of a model."""

from tests.modelctl.repository.mistake import Mistake

NORMALIZE = "normalize/config.pbtxt"
OPEN = ", or give normalize an entry in models.serving of each stack"

MISTAKES = [
    Mistake(
        "no batching",
        NORMALIZE,
        "dynamic_batching {\n  default_queue_policy {\n    timeout_action: REJECT\n    "
        "default_timeout_microseconds: 1000000\n    max_queue_size: 64\n  }\n}\n",
        "",
        [
            (
                "normalize/config.pbtxt: dynamic_batching: missing, so the queue grows without bound under overload; "
                "write dynamic_batching { default_queue_policy { max_queue_size: 64 default_timeout_microseconds: "
                "1000000 } }" + OPEN
            ),
        ],
    ),
    Mistake(
        "no queue policy",
        NORMALIZE,
        "  default_queue_policy {\n    timeout_action: REJECT\n    default_timeout_microseconds: 1000000\n    "
        "max_queue_size: 64\n  }",
        "",
        [
            (
                "normalize/config.pbtxt: dynamic_batching.default_queue_policy: missing, so the queue has no bound; "
                "write dynamic_batching { default_queue_policy { max_queue_size: 64 default_timeout_microseconds: "
                "1000000 } }" + OPEN
            ),
        ],
    ),
    Mistake(
        "a queue without a bound",
        NORMALIZE,
        "    max_queue_size: 64",
        "",
        [
            (
                "normalize/config.pbtxt: dynamic_batching.default_queue_policy.max_queue_size: 0 means no bound; "
                "about what the model answers within its timeout, e.g. 64" + OPEN
            ),
        ],
    ),
    Mistake(
        "a queue that refuses what waits for a batch",
        NORMALIZE,
        "dynamic_batching {\n",
        "dynamic_batching {\n  max_queue_delay_microseconds: 1000000\n",
        [
            (
                "normalize/config.pbtxt: dynamic_batching.default_queue_policy.default_timeout_microseconds: a request "
                "that comes alone is refused after 1000000 µs, while it waits for others (max_queue_delay_microseconds: "
                "1000000); let it wait for longer than that" + OPEN
            ),
        ],
    ),
    Mistake(
        "a queue without a timeout",
        NORMALIZE,
        "    default_timeout_microseconds: 1000000",
        "",
        [
            (
                "normalize/config.pbtxt: dynamic_batching.default_queue_policy.default_timeout_microseconds: 0 lets "
                "a request wait for ever; the longest useful wait in microseconds, e.g. 1000000" + OPEN
            ),
        ],
    ),
    Mistake(
        "preferred batches out of range",
        NORMALIZE,
        "dynamic_batching {",
        "dynamic_batching { preferred_batch_size: [ 0, 8, 16 ]",
        [
            "normalize/config.pbtxt: dynamic_batching.preferred_batch_size: 0 is no batch; sizes are 1 to 8",
            (
                "normalize/config.pbtxt: dynamic_batching.preferred_batch_size: 16 is more than max_batch_size 8; "
                "most models want no preferred size at all"
            ),
        ],
    ),
    Mistake(
        "priorities out of range",
        NORMALIZE,
        "dynamic_batching {",
        "dynamic_batching { priority_levels: 2 default_priority_level: 3 priority_queue_policy { key: 4 value { "
        "max_queue_size: 0 } }",
        [
            "normalize/config.pbtxt: dynamic_batching.default_priority_level: 3 is not between 1 and priority_levels 2",
            "normalize/config.pbtxt: dynamic_batching.priority_queue_policy: level 4 does not exist; levels are 1 to 2",
            (
                "normalize/config.pbtxt: dynamic_batching.priority_queue_policy[4].max_queue_size: 0 means no bound; "
                "about what the model answers within its timeout, e.g. 64" + OPEN
            ),
            (
                "normalize/config.pbtxt: dynamic_batching.priority_queue_policy[4].default_timeout_microseconds: 0 "
                "lets a request wait for ever; the longest useful wait in microseconds, e.g. 1000000" + OPEN
            ),
        ],
    ),
    Mistake(
        "no instance group",
        NORMALIZE,
        "instance_group [ { kind: KIND_CPU count: 1 } ]",
        "",
        [
            (
                "normalize/config.pbtxt: instance_group: missing, so the server starts one instance per GPU it "
                "finds, or one on the CPU; write instance_group [ { kind: KIND_GPU count: 1 } ] or KIND_CPU" + OPEN
            ),
        ],
    ),
    Mistake(
        "models that are asked and are not there",
        NORMALIZE,
        "max_batch_size: 8",
        'max_batch_size: 8\nparameters { key: "asks" value: { string_value: "clasify, normalize" } }',
        [
            "normalize/config.pbtxt: parameters[asks]: there is no model clasify; did you mean 'classify'? use classify or "
            "pipeline",
            "normalize/config.pbtxt: parameters[asks]: normalize is the model itself; name the others that it asks",
        ],
    ),
    Mistake(
        "no model that is asked",
        NORMALIZE,
        "max_batch_size: 8",
        'max_batch_size: 8\nparameters { key: "asks" value: { string_value: " ," } }',
        [
            "normalize/config.pbtxt: parameters[asks]: names no model; name those that it asks, like a,b, or leave it out",
        ],
    ),
    Mistake(
        "a group without kind",
        NORMALIZE,
        "kind: KIND_CPU count: 1",
        "count: 1",
        [
            "normalize/config.pbtxt: instance_group[0].kind: missing; KIND_GPU, KIND_CPU or KIND_MODEL" + OPEN,
        ],
    ),
    Mistake(
        "a count that no pod holds",
        NORMALIZE,
        "kind: KIND_CPU count: 1",
        "kind: KIND_CPU count: 1000000000",
        [
            "normalize/config.pbtxt: instance_group[0].count: 1000000000 instances are more than a pod holds, each with the "
            "model in memory; write 1 or a few" + OPEN,
        ],
    ),
    Mistake(
        "a negative count",
        NORMALIZE,
        "kind: KIND_CPU count: 1",
        "kind: KIND_CPU count: -2",
        [
            "normalize/config.pbtxt: instance_group[0].count: -2 is no number of instances; write at least 1" + OPEN,
        ],
    ),
    Mistake(
        "GPUs by number",
        NORMALIZE,
        "kind: KIND_CPU count: 1",
        "kind: KIND_GPU count: 2 gpus: [ 0, 1 ]",
        [
            (
                "normalize/config.pbtxt: instance_group[0].gpus: the device plugin decides which GPUs a pod sees, "
                "and count is per GPU (2 on each of 2 is 4 instances); leave gpus out" + OPEN
            ),
        ],
    ),
    Mistake(
        "GPUs for the CPU",
        NORMALIZE,
        "kind: KIND_CPU count: 1",
        "kind: KIND_CPU count: 1 gpus: [ 0 ]",
        [
            "normalize/config.pbtxt: instance_group[0].gpus: KIND_CPU takes no GPUs; leave gpus out" + OPEN,
        ],
    ),
    Mistake(
        "two kinds in one model",
        NORMALIZE,
        "{ kind: KIND_CPU count: 1 }",
        "{ kind: KIND_GPU count: 1 }, { kind: KIND_CPU count: 1 }",
        [
            (
                "normalize/config.pbtxt: instance_group: KIND_CPU and KIND_GPU in one model share one queue, so the "
                "slower takes work from the faster; use one kind"
            ),
        ],
    ),
    Mistake(
        "optimizations that do nothing",
        NORMALIZE,
        "instance_group [",
        "optimization { cuda { graphs: true } execution_accelerators { gpu_execution_accelerator: [ { } ] } "
        "}\ninstance_group [",
        [
            (
                "normalize/config.pbtxt: optimization.execution_accelerators.gpu_execution_accelerator[0].name: "
                'missing, so the server ignores it; for example "tensorrt"'
            ),
            (
                "normalize/config.pbtxt: optimization.cuda.graphs: the python backend ignores it; only tensorrt has "
                "CUDA graphs"
            ),
        ],
    ),
    Mistake(
        "a warm-up larger than the batch",
        NORMALIZE,
        "batch_size: 8\n    count",
        "batch_size: 9\n    count",
        [
            "normalize/config.pbtxt: model_warmup[0].batch_size: 9 is not between 1 and max_batch_size 8",
        ],
    ),
    Mistake(
        "a warm-up shape with the batch in it",
        NORMALIZE,
        "dims: [ 4 ] zero_data",
        "dims: [ 8, 4 ] zero_data",
        [
            (
                "normalize/config.pbtxt: model_warmup[0].inputs[FEATURES].dims: [8, 4] includes the batch; dims are "
                "[4], the batch is batch_size (8)"
            ),
        ],
    ),
    Mistake(
        "a warm-up of another shape",
        NORMALIZE,
        "dims: [ 4 ] zero_data",
        "dims: [ 5 ] zero_data",
        [
            (
                "normalize/config.pbtxt: model_warmup[0].inputs[FEATURES].dims: [5] does not fit the input's dims "
                "[4]; every size is at least 1"
            ),
        ],
    ),
    Mistake(
        "a warm-up of another type",
        NORMALIZE,
        "value { data_type: TYPE_FP32",
        "value { data_type: TYPE_INT8",
        [
            "normalize/config.pbtxt: model_warmup[0].inputs[FEATURES].data_type: TYPE_INT8, but the input is TYPE_FP32",
        ],
    ),
    Mistake(
        "a warm-up without data",
        NORMALIZE,
        " zero_data: true",
        "",
        [
            (
                "normalize/config.pbtxt: model_warmup[0].inputs[FEATURES]: no data; one of zero_data: true, "
                "random_data: true, input_data_file"
            ),
        ],
    ),
    Mistake(
        "a warm-up whose data is missing",
        NORMALIZE,
        "zero_data: true",
        'input_data_file: "sample.bin"',
        [
            (
                "normalize/config.pbtxt: model_warmup[0].inputs[FEATURES].input_data_file: there is no "
                "normalize/warmup/sample.bin"
            ),
        ],
    ),
    Mistake(
        "a warm-up of another input",
        NORMALIZE,
        'key: "FEATURES"',
        'key: "FEATURE"',
        [
            "normalize/config.pbtxt: model_warmup[0].inputs: FEATURES is missing; a sample needs every input of the model",
            "normalize/config.pbtxt: model_warmup[0].inputs[FEATURE]: the model has no such input; it has FEATURES",
        ],
    ),
]
