"""Rules for the texts of a spec. Pure; each check returns the text, or raises what pydantic reports by field."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from app.homes.names import MAX_PATH_BYTES, describe, is_tricky

MAX_WORDS_BYTES = 32 * 1024
"""Of what is passed on to the program: Linux takes 128 KiB for the command line that Ray gives to a shell."""
_WHOLE_PATH = re.compile(r"(?:^|[\s=:,;'\"\[({<>|&])(?:~[\w.-]*)?/+[\w.]|^~")
_UPWARDS = re.compile(r"(?:^|[^\w.-])\.\.(?:/|$)")


def unfit(problem: str) -> PydanticCustomError:
    return PydanticCustomError("unfit", "{problem}", {"problem": problem})


def visible(text: str) -> str:
    """Chinese names and typographic signs are fine; what cannot be seen, or breaks a line, is not."""
    hidden = next((c for c in text if not c.isprintable()), None)
    if hidden is not None:
        raise unfit(f"it has the character {describe(hidden)}")
    return text


def pathless(text: str) -> str:
    """A word for the program. Paths have fields of their own, as those are checked."""
    if _WHOLE_PATH.search(text) or _UPWARDS.search(text):
        raise unfit("it names a path; name files in train_file, val_file or model_path, where they are checked")
    return text


def inside(text: str) -> str:
    """A path inside the folder of a job."""
    if any(map(is_tricky, text)) or text != text.strip():
        raise unfit("it has characters that cannot be seen, or that pass for / or .")
    if any(part in ("", ".", "..") for part in text.split("/")):
        raise unfit("it must be a path inside the folder of the job, without . or .. or //")
    return text


def check_path(text: str) -> str:
    """As inside, or a whole path: the rules of the data homes judge that one."""
    return text if text.startswith("/") else inside(text)


def an_onnx(text: str) -> str:
    if not text.endswith(".onnx"):
        raise unfit("only an .onnx file can be converted")
    return text


def custom(name: str) -> str:
    """A resource that an operator named. Ray's own have fields of their own."""
    if name in ("CPU", "GPU", "memory", "object_store_memory", "node"):
        raise unfit(f"{name} is Ray's own: say it by the fields for GPUs and CPUs")
    return name


def short_enough(words: Iterable[str]) -> bool:
    return sum(len(shlex.quote(word).encode()) for word in words) <= MAX_WORDS_BYTES


def short_list(words: list[str]) -> list[str]:
    if not short_enough(words):
        raise unfit(f"they are longer than {MAX_WORDS_BYTES // 1024} KiB together")
    return words


Line = Annotated[str, StringConstraints(max_length=200), AfterValidator(visible)]
Word = Annotated[str, StringConstraints(max_length=1000), AfterValidator(visible), AfterValidator(pathless)]
Words = Annotated[list[Word], AfterValidator(short_list)]
LogicalPath = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH_BYTES)]
ProgramName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_]|[.-][A-Za-z0-9_]){0,95}"
ModelId = Annotated[str, StringConstraints(pattern=rf"^{_PART}(?:/{_PART})?$", max_length=200)]
"""Qwen/Qwen2.5-0.5B-Instruct: as Hugging Face allows, so without .. and --."""
_MODEL_ID = TypeAdapter(ModelId)


def model_or_path(text: str) -> str:
    """A model of Hugging Face, or a whole path, which the rules of the data homes judge."""
    if not text.startswith("/"):
        try:
            _MODEL_ID.validate_python(text)
        except ValidationError:
            raise unfit("it must be a model of Hugging Face, or a path under /private/") from None
    return text


ModelPlace = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH_BYTES), AfterValidator(model_or_path)]
ResumePoint = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATH_BYTES), AfterValidator(visible)]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
InnerPath = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(inside)]
OnnxPath = Annotated[InnerPath, AfterValidator(an_onnx)]
Pictures = Annotated[LogicalPath, AfterValidator(check_path)]
