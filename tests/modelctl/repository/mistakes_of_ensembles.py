"""Mistakes in an ensemble."""

from tests.modelctl.repository.mistake import Mistake

PIPELINE = "pipeline/config.pbtxt"

MISTAKES = [
    Mistake(
        "a step of no model",
        PIPELINE,
        '"normalize"',
        '"normalise"',
        [
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[0].model_name: there is no model normalise; models: "
                "classify, normalize"
            ),
        ],
    ),
    Mistake(
        "a step of another version",
        PIPELINE,
        '"classify"\n      model_version: -1',
        '"classify"\n      model_version: 2',
        [
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[1].model_version: 2, but the release serves version "
                "1 of classify; write -1 or 1"
            ),
        ],
    ),
    Mistake(
        "a step's input misspelt",
        PIPELINE,
        'input_map { key: "FEATURES"',
        'input_map { key: "FEATURE"',
        [
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[0].input_map: normalize has no input FEATURE; it "
                "has FEATURES"
            ),
            "pipeline/config.pbtxt: ensemble_scheduling.step[0].input_map: input FEATURES of normalize is not mapped",
        ],
    ),
    Mistake(
        "a step's input left out",
        PIPELINE,
        'input_map { key: "NORMALIZED" value: "features_normalized" }',
        "",
        [
            "pipeline/config.pbtxt: ensemble_scheduling.step[1].input_map: input NORMALIZED of classify is not mapped",
        ],
    ),
    Mistake(
        "a tensor that nothing writes",
        PIPELINE,
        'input_map { key: "NORMALIZED" value: "features_normalized" }',
        'input_map { key: "NORMALIZED" value: "normalized" }',
        [
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[1].input_map: nothing writes tensor normalized; "
                "there are CLASS, FEATURES, SCORES, features_normalized"
            ),
        ],
    ),
    Mistake(
        "a step's output misspelt",
        PIPELINE,
        'output_map { key: "CLASS" value',
        'output_map { key: "LABEL" value',
        [
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[1].output_map: classify has no output LABEL; it has "
                "SCORES, CLASS"
            ),
        ],
    ),
    Mistake(
        "an ensemble output left out",
        PIPELINE,
        '      output_map { key: "CLASS" value: "CLASS" }\n',
        "",
        [
            "pipeline/config.pbtxt: output: nothing writes tensor CLASS; there are FEATURES, SCORES, features_normalized",
        ],
    ),
    Mistake(
        "a tensor of two types",
        PIPELINE,
        "TYPE_INT32",
        "TYPE_INT64",
        [
            "pipeline/config.pbtxt: output: tensor CLASS is TYPE_INT32 in classify but TYPE_INT64 in pipeline",
        ],
    ),
    Mistake(
        "a tensor of two shapes",
        PIPELINE,
        "dims: [ 3 ]",
        "dims: [ 2 ]",
        [
            "pipeline/config.pbtxt: output: tensor SCORES has shape [-1, 3] in classify but [-1, 2] in pipeline",
        ],
    ),
    Mistake(
        "an ensemble batch over its steps'",
        PIPELINE,
        "max_batch_size: 8",
        "max_batch_size: 16",
        [
            "pipeline/config.pbtxt: max_batch_size: 16 is more than the 8 of step normalize",
            "pipeline/config.pbtxt: max_batch_size: 16 is more than the 8 of step classify",
        ],
    ),
    Mistake(
        "a tensor written twice",
        PIPELINE,
        'key: "CLASS" value: "CLASS"',
        'key: "CLASS" value: "SCORES"',
        [
            "pipeline/config.pbtxt: ensemble_scheduling.step[1].output_map: tensor SCORES is written twice",
            "pipeline/config.pbtxt: output: nothing writes tensor CLASS; there are FEATURES, SCORES, features_normalized",
        ],
    ),
    Mistake(
        "instances of an ensemble",
        PIPELINE,
        'platform: "ensemble"',
        'platform: "ensemble" instance_group [ { kind: KIND_CPU count: 1 } ]',
        [
            "pipeline/config.pbtxt: instance_group: an ensemble has no instances; leave it out, its steps have their own",
        ],
    ),
    Mistake(
        "a backend of an ensemble",
        PIPELINE,
        'platform: "ensemble"',
        'backend: "ensemble"',
        [
            (
                'pipeline/config.pbtxt: backend: "ensemble" on an ensemble; an ensemble has platform: "ensemble" and '
                "no backend"
            ),
            'pipeline/config.pbtxt: platform: a model with ensemble_scheduling needs platform: "ensemble"',
        ],
    ),
    Mistake(
        "an ensemble in itself",
        PIPELINE,
        'model_name: "normalize"',
        'model_name: "pipeline"',
        [
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step[0].output_map: pipeline has no output NORMALIZED; "
                "it has SCORES, CLASS"
            ),
            "pipeline/config.pbtxt: ensemble_scheduling.step: pipeline contains itself",
        ],
    ),
    Mistake(
        "steps that wait for each other",
        PIPELINE,
        'input_map { key: "FEATURES" value: "FEATURES" }',
        'input_map { key: "FEATURES" value: "features_normalized" }',
        [
            "pipeline/config.pbtxt: input: no step reads FEATURES",
            (
                "pipeline/config.pbtxt: ensemble_scheduling.step: normalize, classify wait for tensors that only "
                "they themselves write"
            ),
        ],
    ),
]
