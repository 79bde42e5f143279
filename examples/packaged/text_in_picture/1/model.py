"""The text in a picture: detection, direction and recognition by three ONNX models here, and what lies between.

The steps, sizes and limits are those of the package that has the models
(https://github.com/RapidAI/RapidOCR, rapidocr_onnxruntime/config.yaml), but for one: boxes are upright, so that text which
runs at an angle is not read. Needs nothing but numpy, which every image of Triton has.
"""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as triton

SHORTEST_SIDE = 736
LONGEST_SIDE = 2000
STEP = 32
"""Sides of what the detection takes are multiples of it."""
IS_TEXT = 0.3
IS_LINE = 0.5
"""Least mean likelihood within a box, and of what was read."""
GROWTH = 1.6
"""The detection finds the core of a line: its box grows by area x GROWTH / perimeter on each side."""
LEAST_SIDE = 3
MOST_LINES = 1000
UPSIDE_DOWN = 0.9
HEIGHT = 48
DIRECTION_WIDTH = 192
LEAST_WIDTH = 320
BATCH = 8
LINES_APART = 10
"""Pixels between the tops of two boxes that are no longer one line of text."""


class TritonPythonModel:
    def initialize(self, args):
        folder = Path(args["model_repository"], args["model_version"])
        characters = (folder / "characters.txt").read_text(encoding="utf-8").split("\n")
        self._characters = ["", *characters, " "]  # the first one stands for "no new character"

    def execute(self, requests):
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        picture = triton.get_input_tensor_by_name(request, "PICTURE").as_numpy()
        try:
            lines = self._read(picture)
        except _StepFailed as error:
            return triton.InferenceResponse([], triton.TritonError(str(error)))
        return triton.InferenceResponse(
            [
                triton.Tensor("TEXT", np.array([text.encode() for text, _, _ in lines], dtype=np.object_)),
                triton.Tensor("SCORE", np.array([score for _, score, _ in lines], dtype=np.float32)),
                triton.Tensor("BOX", np.array([box for _, _, box in lines], dtype=np.int32).reshape(-1, 4)),
            ]
        )

    def _read(self, picture):
        """Return text, score and box of each line, from top to bottom."""
        if min(picture.shape[:2]) == 0:
            return []
        picture = picture[:, :, ::-1]  # the models were trained on blue, green and red
        boxes = _in_reading_order(_boxes(_ask("text_detection", _for_detection(picture))[0, 0], picture.shape))
        crops = [picture[top:bottom, left:right] for left, top, right, bottom in boxes]
        crops = [np.rot90(crop) if crop.shape[0] >= 1.5 * crop.shape[1] else crop for crop in crops]
        lines = []
        for start in range(0, len(crops), BATCH):
            upright = _upright(crops[start : start + BATCH])
            widest = max(LEAST_WIDTH, *(int(HEIGHT * crop.shape[1] / crop.shape[0]) for crop in upright))
            likelihoods = _ask("text_recognition", np.stack([_line(crop, widest) for crop in upright]))
            lines += [self._decoded(one) for one in likelihoods]
        found = [(text, score, box) for (text, score), box in zip(lines, boxes, strict=True)]
        return [(text, score, box) for text, score, box in found if score >= IS_LINE]

    def _decoded(self, likelihoods):
        """Return the text of the likeliest characters, each once where it stays the same, and their mean likelihood."""
        likeliest = likelihoods.argmax(axis=1)
        is_new = np.append(True, likeliest[1:] != likeliest[:-1]) & (likeliest != 0)
        if not is_new.any():
            return "", 0.0
        text = "".join(self._characters[index] for index in likeliest[is_new])
        return text, float(likelihoods.max(axis=1)[is_new].mean())


class _StepFailed(Exception):
    """A model that was asked has answered with an error."""


_OUTPUTS = {
    "text_detection": "sigmoid_0.tmp_0",
    "text_direction": "save_infer_model/scale_0.tmp_1",
    "text_recognition": "softmax_11.tmp_0",
}


def _ask(model, array):
    name = _OUTPUTS[model]
    request = triton.InferenceRequest(
        model_name=model, requested_output_names=[name], inputs=[triton.Tensor("x", np.ascontiguousarray(array))]
    )
    response = request.exec()
    if response.has_error():
        raise _StepFailed(f"{model}: {response.error().message()}")
    return triton.get_output_tensor_by_name(response, name).as_numpy()


def _upright(crops):
    """Return the lines, those that stand upside down turned."""
    told = _ask("text_direction", np.stack([_line(crop, DIRECTION_WIDTH) for crop in crops]))
    return [crop[::-1, ::-1] if down > UPSIDE_DOWN else crop for crop, (_, down) in zip(crops, told, strict=True)]


def _for_detection(picture):
    rows, columns = picture.shape[:2]
    scale = max(1.0, SHORTEST_SIDE / min(rows, columns))
    scale = min(scale, LONGEST_SIDE / max(rows, columns))
    sides = [max(STEP, round(side * scale / STEP) * STEP) for side in (rows, columns)]
    return _scaled(_resized(picture, *sides))[np.newaxis]


def _line(crop, width):
    """Return a line as direction and recognition take it: of one height, and filled up on the right."""
    wide = min(width, max(1, int(np.ceil(HEIGHT * crop.shape[1] / crop.shape[0]))))
    filled = np.zeros((3, HEIGHT, width), dtype=np.float32)
    filled[:, :, :wide] = _scaled(_resized(crop, HEIGHT, wide))
    return filled


def _scaled(picture):
    return ((picture / 255 - 0.5) / 0.5).transpose(2, 0, 1).astype(np.float32)


def _resized(picture, rows, columns):
    """Return the picture in another size, by the two nearest rows and columns of each pixel."""
    for axis, size in ((0, rows), (1, columns)):
        place = (np.arange(size) + 0.5) * picture.shape[axis] / size - 0.5
        place = np.clip(place, 0, picture.shape[axis] - 1)
        low = np.floor(place).astype(int)
        high = np.minimum(low + 1, picture.shape[axis] - 1)
        share = (place - low).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1)).astype(np.float32)
        picture = picture.take(low, axis) * (1 - share) + picture.take(high, axis) * share
    return picture


def _boxes(likelihoods, shape):
    """Return left, top, right and bottom of each line that the likelihoods show, in pixels of the picture."""
    boxes = []
    for left, top, right, bottom in _islands(_grown(likelihoods > IS_TEXT))[:MOST_LINES]:
        wide, high = right - left, bottom - top
        if min(wide, high) < LEAST_SIDE or likelihoods[top:bottom, left:right].mean() < IS_LINE:
            continue
        growth = wide * high * GROWTH / (2 * (wide + high))
        across, down = shape[1] / likelihoods.shape[1], shape[0] / likelihoods.shape[0]
        box = ((left - growth) * across, (top - growth) * down, (right + growth) * across, (bottom + growth) * down)
        left, top, right, bottom = (round(edge) for edge in box)
        left, top, right, bottom = max(0, left), max(0, top), min(shape[1], right), min(shape[0], bottom)
        if min(right - left, bottom - top) > LEAST_SIDE:
            boxes.append((left, top, right, bottom))
    return boxes


def _grown(mask):
    """Return the mask with each pixel grown by one to the right and down, so that words of one line hold together."""
    padded = np.pad(mask, ((1, 0), (1, 0)))
    return padded[1:, 1:] | padded[:-1, 1:] | padded[1:, :-1] | padded[:-1, :-1]


def _islands(mask):
    """Return left, top, right and bottom of each group of pixels that touch, also at a corner."""
    boxes, group_of = [], []
    before = []
    for row in range(len(mask)):
        edges = np.flatnonzero(np.diff(np.concatenate(([False], mask[row], [False])).astype(np.int8)))
        runs = []
        for left, right in edges.reshape(-1, 2).tolist():
            touched = {_root(group_of, group) for start, end, group in before if start <= right and left <= end}
            group = min(touched, default=len(boxes))
            if not touched:
                boxes.append((left, row, right, row + 1))
                group_of.append(group)
            parts = [boxes[one] for one in touched] + [(left, row, right, row + 1)]
            boxes[group] = (
                *(min(part[i] for part in parts) for i in (0, 1)),
                *(max(part[i] for part in parts) for i in (2, 3)),
            )
            for one in touched:
                group_of[one] = group
            runs.append((left, right, group))
        before = runs
    return [box for group, box in enumerate(boxes) if group_of[group] == group]


def _root(group_of, group):
    while group_of[group] != group:
        group = group_of[group]
    return group


def _in_reading_order(boxes):
    """Return boxes from top to bottom, and those of one line of text from left to right."""
    rows = []
    for box in sorted(boxes, key=lambda box: box[1]):
        if rows and box[1] - rows[-1][0][1] < LINES_APART:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row)]
