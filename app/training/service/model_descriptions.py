"""What training knows of a model that goes on: its samples, how pictures are prepared for it, how its outputs are read.

A program writes it into conversion.json beside the ONNX; `convert:` of the task takes precedence for the model that it
names. Conversions and the model registry get it without anybody typing it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from app.homes.errors import FileMissing, HomeDenied
from app.homes.home_paths import home_path_of
from app.homes.service import Homes
from app.kit.errors import BadInput
from app.training.spec import ConvertSpec

FILE = "conversion.json"
MAX_BYTES = 256 << 10
SAMPLES = ("images", "reference.zip")
"""What a program leaves beside its model for calibration."""


class ModelDescription(BaseModel):
    """The content of conversion.json. All of it may be left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: Annotated[str, Field(max_length=4096)] = ""
    """Reference samples, a zip or a folder: from the folder of the model, or a whole path."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Of the conversion, as POST /jobs takes them: preprocess, input_shapes, …"""
    decoder: Annotated[str, Field(max_length=40)] = "auto"
    """How its outputs are read, as the model registry names it."""
    labels: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=10_000)] = Field(
        default_factory=list
    )
    """Names of its classes, by index."""

    @property
    def preprocess(self) -> Mapping[str, Any] | None:
        """How pictures are prepared, as options.preprocess of a conversion."""
        preprocess = self.options.get("preprocess")
        return preprocess if isinstance(preprocess, dict) else None


def describe_model(
    homes: Homes, user: str, folder: str, artifact: str, convert: ConvertSpec | None
) -> ModelDescription:
    """Returns what is known of a model, with the whole path of its samples.

    Args:
        folder: The task's, as tasks name it.
        artifact: The model's path in that folder.
        convert: Of the task.

    Raises:
        BadInput: conversion.json cannot be read.
        HomeUnavailable, PathRefused: As of any file of the home.
    """
    beside = f"{folder}/{artifact}".rpartition("/")[0]
    noted = _read(homes, user, f"{beside}/{FILE}")
    images = _resolve_path(noted.images, beside) or _find_samples(homes, user, beside)
    if convert is None or convert.model != artifact:
        return noted.model_copy(update={"images": images})
    options = {**noted.options, **convert.options}
    return noted.model_copy(update={"images": _resolve_path(convert.images, folder), "options": options})


def _resolve_path(path: str, folder: str) -> str:
    return path if not path or path.startswith("/") else f"{folder}/{path}"


def _read(homes: Homes, user: str, path: str) -> ModelDescription:
    try:
        location = home_path_of(homes.options, user, path)
        data = b"".join(homes.files.tree(user, location).read(location.inner, end=MAX_BYTES + 1))
    except FileMissing:
        return ModelDescription()
    if len(data) > MAX_BYTES:
        raise BadInput(f"{FILE} is longer than {MAX_BYTES >> 10} KiB", hint="It describes one model.")
    try:
        return ModelDescription.model_validate_json(data)
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False, include_context=False, include_input=False)
        place = ".".join([FILE, *map(str, first["loc"])])
        raise BadInput(f"{place}: {first['msg']}", hint="The program of the task writes this file.") from None


def _find_samples(homes: Homes, user: str, folder: str) -> str:
    """Those that lie beside the model; "" if there are none."""
    for name in SAMPLES:
        with suppress(FileMissing, HomeDenied):
            location = home_path_of(homes.options, user, f"{folder}/{name}")
            homes.files.tree(user, location).info(location.inner)
            return f"{folder}/{name}"
    return ""
