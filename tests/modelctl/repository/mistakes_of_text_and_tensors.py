"""Mistakes in the text, the backend, the tensors and the versions of a model."""

from tests.modelctl.repository.mistake import Mistake

NORMALIZE = "normalize/config.pbtxt"

MISTAKES = [
    Mistake(
        "an unknown field",
        NORMALIZE,
        "max_batch_size: 8",
        "max_batch_size: 8\nbatch_size_max: 8",
        [
            "normalize/config.pbtxt:4:1: ModelConfig has no field batch_size_max; did you mean max_batch_size?",
        ],
    ),
    Mistake(
        "several unknown fields at once",
        NORMALIZE,
        "max_batch_size: 8",
        'max_batch_size: 8\ndynamicBatching { x: "}" y { } }\nbackend_config { name: "python" '
        'cuda_memory_pool_size: 1 }\nrate_limit_resources [ { name: "a" } ] input_shape: 3',
        [
            "normalize/config.pbtxt:4:1: ModelConfig has no field dynamicBatching; did you mean dynamic_batching?",
            (
                "normalize/config.pbtxt:5:1: ModelConfig has no field backend_config; settings of a backend are "
                "server flags, --backend-config=<backend>,<key>=<value>"
            ),
            (
                "normalize/config.pbtxt:6:1: ModelConfig has no field rate_limit_resources; write instance_group [ { "
                "rate_limiter { resources [ { name: … count: … } ] } } ]"
            ),
            "normalize/config.pbtxt:6:40: ModelConfig has no field input_shape; did you mean input?",
        ],
    ),
    Mistake(
        "an unknown field of a group",
        NORMALIZE,
        "kind: KIND_CPU count: 1",
        "kind: KIND_CPU count: 1 rate_limit_resources: 2",
        [
            (
                "normalize/config.pbtxt:20:44: ModelInstanceGroup has no field rate_limit_resources; write "
                "instance_group [ { rate_limiter { resources [ { name: … count: … } ] } } ]"
            ),
        ],
    ),
    Mistake(
        "an unknown kind",
        NORMALIZE,
        "KIND_CPU",
        "KIND_TPU",
        [
            "normalize/config.pbtxt:20:26: there is no KIND_TPU; valid: KIND_GPU, KIND_CPU, KIND_MODEL",
        ],
    ),
    Mistake(
        "an unknown data type",
        NORMALIZE,
        '"FEATURES" data_type: TYPE_FP32',
        '"FEATURES" data_type: FLOAT32',
        [
            (
                "normalize/config.pbtxt:5:39: there is no FLOAT32; valid: TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, "
                "TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, "
                "TYPE_FP64, TYPE_STRING, TYPE_BF16"
            ),
        ],
    ),
    Mistake(
        "a list in a list",
        NORMALIZE,
        "output [",
        "output [ [",
        [
            'normalize/config.pbtxt:6:10: not valid protobuf text: Expected "{"',
        ],
    ),
    Mistake(
        "a string without its end",
        NORMALIZE,
        'backend: "python"',
        'backend: "python',
        [
            "normalize/config.pbtxt:2:10: not valid protobuf text: String missing ending quote: '\"python'",
        ],
    ),
    Mistake(
        "a field twice",
        NORMALIZE,
        "max_batch_size: 8",
        "max_batch_size: 8 max_batch_size: 4",
        [
            (
                'normalize/config.pbtxt:3:35: not valid protobuf text: Message type "inference.ModelConfig" should '
                'not have multiple "max_batch_size" fields'
            ),
        ],
    ),
    Mistake(
        "two schedulers",
        NORMALIZE,
        "instance_group [",
        "sequence_batching { }\ninstance_group [",
        [
            (
                'normalize/config.pbtxt:20:1: not valid protobuf text: Field "sequence_batching" is specified along '
                'with field "dynamic_batching", another member of oneof "scheduling_choice" for message type '
                '"inference.ModelConfig"'
            ),
        ],
    ),
    Mistake(
        "another model's name",
        NORMALIZE,
        'backend: "python"',
        'name: "normalise" backend: "python"',
        [
            (
                'normalize/config.pbtxt: name: "normalise" is not the name of the directory, normalize; write that '
                "or leave name out"
            ),
        ],
    ),
    Mistake(
        "no backend",
        NORMALIZE,
        'backend: "python"',
        'default_model_filename: "golden.json"',
        [
            (
                "normalize/config.pbtxt: backend: missing; one of dali, fil, onnxruntime, openvino, python, pytorch, "
                'tensorrt, tensorrtllm, vllm, or platform: "ensemble"'
            ),
        ],
    ),
    Mistake(
        "an unknown backend",
        NORMALIZE,
        'backend: "python"',
        'backend: "trt"',
        [
            (
                'normalize/config.pbtxt: backend: there is no "trt" (did you mean tensorrt?); known: dali, fil, '
                "onnxruntime, openvino, python, pytorch, tensorrt, tensorrtllm, vllm; one of your own is the file "
                "libtriton_trt.so of the model, or in the image and named in release.yaml (backends: [trt])"
            ),
        ],
    ),
    Mistake(
        "a platform that is gone",
        NORMALIZE,
        'backend: "python"',
        'platform: "caffe2_netdef"',
        [
            (
                'normalize/config.pbtxt: platform: there is no "caffe2_netdef"; known: ensemble, libtorch, '
                "onnxruntime_onnx, pytorch_libtorch, tensorrt_plan, torch_aoti"
            ),
        ],
    ),
    Mistake(
        "a TensorFlow platform",
        NORMALIZE,
        'backend: "python"',
        'platform: "tensorflow_savedmodel"',
        [
            (
                "normalize/config.pbtxt: platform: Triton has no TensorFlow backend since 25.03; convert the model "
                'to ONNX and write backend: "onnxruntime"'
            ),
        ],
    ),
    Mistake(
        "the TensorFlow backend",
        NORMALIZE,
        'backend: "python"',
        'backend: "tensorflow"',
        [
            (
                "normalize/config.pbtxt: backend: Triton has no TensorFlow backend since 25.03; convert the model to "
                'ONNX and write backend: "onnxruntime"'
            ),
        ],
    ),
    Mistake(
        "backend and platform at odds",
        NORMALIZE,
        'backend: "python"',
        'backend: "python" platform: "onnxruntime_onnx"',
        [
            'normalize/config.pbtxt: platform: "onnxruntime_onnx" contradicts backend: "python"; leave platform out',
        ],
    ),
    Mistake(
        "a negative batch",
        NORMALIZE,
        "max_batch_size: 8",
        "max_batch_size: -8",
        [
            "normalize/config.pbtxt: max_batch_size: -8 is negative; 0 means that the model does not batch",
        ],
    ),
    Mistake(
        "an input without name and size",
        NORMALIZE,
        'name: "FEATURES" data_type: TYPE_FP32 dims: [ 4 ]',
        "data_type: TYPE_FP32 dims: [ 0 ]",
        [
            "normalize/config.pbtxt: input[0].name: missing",
            "normalize/config.pbtxt: input[0].dims: 0 is no size; a size is at least 1, or -1 when it varies",
            "normalize/config.pbtxt: model_warmup[0].inputs[FEATURES]: the model has no such input; it has none",
            "pipeline/config.pbtxt: ensemble_scheduling.step[0].input_map: normalize has no input FEATURES; it has none",
        ],
    ),
    Mistake(
        "no output",
        NORMALIZE,
        'output [ { name: "NORMALIZED" data_type: TYPE_FP32 dims: [ 4 ] } ]',
        "",
        [
            "normalize/config.pbtxt: output: missing; every output needs name, data_type and dims",
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[0].output_map: normalize has no output NORMALIZED; "
                "it has none"
            ),
        ],
    ),
    Mistake(
        "an output without type and shape",
        NORMALIZE,
        'output [ { name: "NORMALIZED" data_type: TYPE_FP32 dims: [ 4 ] } ]',
        'output [ { name: "NORMALIZED" }, { name: "NORMALIZED" data_type: TYPE_FP32 dims: [ 4 ] } ]',
        [
            "normalize/config.pbtxt: output[0].data_type: missing; for example TYPE_FP32",
            "normalize/config.pbtxt: output[0].dims: missing; the shape without the batch, for example [ 4 ]",
            "normalize/config.pbtxt: output: NORMALIZED is declared 2 times; a name is used once",
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[1].input_map: tensor features_normalized has shape "
                "[-1] in normalize but [-1, 4] in classify"
            ),
        ],
    ),
    Mistake(
        "compute capabilities without a dot",
        NORMALIZE,
        'backend: "python"',
        'backend: "tensorrt" cc_model_filenames [ { key: "75" value: "t4.plan" }, { key: "8.6" value: "a10.plan" } ]',
        [
            "normalize/1/a10.plan: missing; cc_model_filenames loads it, and 1/ holds model.py",
            "normalize/1/t4.plan: missing; cc_model_filenames loads it, and 1/ holds model.py",
            (
                'normalize/config.pbtxt: cc_model_filenames: "75" is no compute capability; keys are written "7.5", '
                '"8.0", "8.6"'
            ),
        ],
    ),
    Mistake(
        "all versions",
        NORMALIZE,
        'backend: "python"',
        'backend: "python" version_policy { all { } }',
        [
            (
                "normalize/config.pbtxt: version_policy: all, but a release serves exactly the versions that "
                "release.yaml says; leave it out "
                "(the release adds specific { versions: [ 1 ] })"
            ),
        ],
    ),
    Mistake(
        "two versions",
        NORMALIZE,
        'backend: "python"',
        'backend: "python" version_policy { specific { versions: [ 1, 2 ] } }',
        [
            (
                "normalize/config.pbtxt: version_policy: specific [1, 2], but the release serves version 1; leave it "
                "out (the release adds specific { versions: [ 1 ] })"
            ),
        ],
    ),
    Mistake(
        "tensors of the batch that are made of nothing",
        NORMALIZE,
        'backend: "python"',
        """backend: "python"
        batch_input { kind: BATCH_ELEMENT_COUNT data_type: TYPE_INT64 source_input: "FEATURE" }
        batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "NORMALISED" }""",
        [
            f"normalize/config.pbtxt: {message}"
            for message in (
                "batch_input[0].source_input: the model has no FEATURE; it has FEATURES",
                "batch_output[0].source_input: names 0 inputs; it takes one",
                "batch_output[0].target_name: the model has no NORMALISED; it has NORMALIZED",
                "batch_input[0].target_name: missing; the name of the tensor that the server adds",
                "batch_input[0].data_type: TYPE_INT64; TYPE_INT32 or TYPE_FP32",
            )
        ],
    ),
    Mistake(
        "labels that are missing",
        NORMALIZE,
        '"NORMALIZED" data_type',
        '"NORMALIZED" label_filename: "labels.txt" data_type',
        [
            "normalize/labels.txt: missing; output NORMALIZED takes its labels from it",
        ],
    ),
]
