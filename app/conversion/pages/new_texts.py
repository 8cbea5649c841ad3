"""What the page of a new conversion says of errors: texts are gettext keys, English being the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.conversion.errors import TooManyJobs
from app.kit.errors import ModelmillError


@dataclass(frozen=True)
class Problem:
    """text, hint: what is wrong and what to do, as keys with %(name)s for the entries of detail.

    said, said_hint: the same in English only, with names and numbers; where there is more to say than a key can.
    """

    text: str
    said: str = ""
    hint: str = ""
    said_hint: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


TITLES = {
    "MODEL_NOT_ONNX": ("This is no ONNX model.", "Export the model to ONNX and send the .onnx file itself."),
    "MODEL_IS_LFS_POINTER": (
        "This is a git-lfs pointer, not the model itself.",
        "Run `git lfs pull` in the repository and send the file it fetches.",
    ),
    "MODEL_TRUNCATED": ("The model ends early.", "Export or download it again and compare the file sizes."),
    "MODEL_INVALID": (
        "The model breaks the rules of ONNX.",
        "Check it with onnx.checker.check_model and export it again.",
    ),
    "MODEL_EXTERNAL_WEIGHTS": (
        "Weights of the model are missing: they lie in another file.",
        "Choose that file (such as model.onnx.data) together with the model, or a zip of both.",
    ),
    "MODEL_BAD_ARCHIVE": ("The zip cannot be used.", "Pack one .onnx file and its weights, without a password."),
    "MODEL_TOO_NEW": ("The model is newer than this toolchain reads.", "Export it with an older opset, such as 17."),
    "MODEL_DYNAMIC_SHAPE": ("The model leaves axes of its inputs open.", "Give the missing sizes."),
    "MODEL_UNSUPPORTED_OPERATOR": (
        "The model uses an operator that is not known.",
        "Export the model without it, or cut the graph before it.",
    ),
    "MODEL_UNSUPPORTED_INPUT": ("This kind of input cannot be calibrated.", "Export the model with float32 inputs."),
    "MODEL_TOO_LARGE": ("The model is larger than is accepted here.", "Simplify it, or ask the operator for more."),
    "IMAGES_BAD_ARCHIVE": ("The zip cannot be used.", "Pack plain files and folders only, without a password."),
    "IMAGES_ZIP_BOMB": ("The zip unpacks to far more than its size.", "Send real pictures or arrays."),
    "IMAGES_TOO_LARGE": ("There are too many or too large pictures.", "A few hundred typical pictures are enough."),
    "IMAGES_NONE": ("There are no reference pictures in it.", "Send pictures, .npy or .npz files, or a zip of them."),
    "IMAGES_DAMAGED": ("Some pictures cannot be read.", "Replace them, or choose to leave damaged pictures out."),
    "IMAGES_WRONG_SHAPE": ("The samples do not fit the model's input.", "Send samples in the shape of the input."),
    "IMAGES_WRONG_TYPE": ("The samples hold values that cannot be used.", "Send finite numbers of the input's type."),
    "KEY_NOT_FOUND": ("This file is no longer here.", "Send it again: uploads are kept for a day."),
}
"""Error code → what it means in one sentence, what to do."""

_TOO_MANY = {
    True: "You have %(limit)s unfinished jobs, and more are not accepted.",
    False: "There are %(limit)s unfinished jobs here, and more are not accepted.",
}
_TOO_MANY_HINT = "Nothing is lost: try again in about %(retry_after_s)s seconds, or cancel a job that is not needed."
"""Is it the user's own limit? → what to say."""

_BY_TYPE = {
    "greater_than": "This must be greater than %(gt)s.",
    "greater_than_equal": "This must be at least %(ge)s.",
    "less_than": "This must be less than %(lt)s.",
    "less_than_equal": "This must be at most %(le)s.",
    "literal_error": "Choose one of these.",
    "enum": "Choose one of these.",
    "finite_number": "This must be a number.",
    "string_pattern_mismatch": "This is not in the form that is asked for.",
    "string_too_long": "This is too long.",
    "too_long": "These are too many.",
    "too_short": "Give at least one value.",
}


def problem_of(error: ModelmillError) -> Problem:
    text, hint = TITLES.get(error.code, ("", ""))
    if isinstance(error, TooManyJobs):
        return Problem(_TOO_MANY[error.detail["is_own"]], hint=_TOO_MANY_HINT, detail=error.detail)
    if not text:
        return Problem(error.message.replace("%", "%%"), hint=error.hint.replace("%", "%%"))
    if error.code == "MODEL_DYNAMIC_SHAPE" and "given" not in error.detail:
        return Problem(text, hint=hint)  # the form asks for every axis by itself
    return Problem(text, said=error.message, hint=hint, said_hint=error.hint)


def field_problem(kind: str, message: str, context: Mapping[str, Any]) -> Problem:
    """What pydantic found, in our words."""
    if kind == "value_error":
        return Problem(message.removeprefix("Value error, "))
    if kind in ("float_parsing", "int_parsing", "float_type", "int_type", "int_from_float"):
        return Problem("This must be a whole number." if kind.startswith("int") else "This must be a number.")
    detail = {name: f"{value:g}" for name, value in context.items() if isinstance(value, int | float)}
    return Problem(_BY_TYPE.get(kind, message.replace("%", "%%")), detail=detail)


PARTS = {"MODEL_DYNAMIC_SHAPE": "shape", "IMAGES": "images", "MODEL": "model"}


def place_of(error: ModelmillError) -> str:
    """The part of the form an error of a submission belongs beside; "form" when it is none's."""
    for start, place in PARTS.items():
        if error.code.startswith(start):
            return place
    for word, place in (("preprocess", "pre"), ("input_shapes", "shape"), ("toolchain", "toolchain")):
        if word in error.message:
            return place
    return "form"
