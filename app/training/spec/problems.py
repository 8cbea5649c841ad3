"""What is wrong with the fields of a spec, in the words of who writes one; a misspelt field comes first. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.training.spec.fields import ConvertSpec, TaskSpec

Problem = dict[str, Any]
"""at, problem"""
_FIELDS: dict[str, Iterable[str]] = {"": TaskSpec.model_fields, "convert": ConvertSpec.model_fields}
_OTHER_NAMES = {
    "gpus": "n_gpus_per_node",
    "num_gpus": "n_gpus_per_node",
    "n_gpus": "n_gpus_per_node",
    "nodes": "nnodes",
    "epochs": "total_epochs",
    "steps": "total_training_steps",
    "model": "model_id or model_path",
    "image": "images",
    "pictures": "images",
}
"""What others call it, where that does not look alike."""
_UNKNOWN, _NO_TEXT = "Extra inputs are not permitted", "Input should be a valid string"


def in_words(problems: Sequence[Problem], data: Mapping[str, Any]) -> list[Problem]:
    """problems: as pydantic says them. data: what was sent."""
    said = [{**problem, "problem": _said(problem, data)} for problem in problems]
    is_unknown = [problem["problem"] == _UNKNOWN for problem in problems]
    first = [new for new, unknown in zip(said, is_unknown, strict=True) if unknown]
    return first + [new for new, unknown in zip(said, is_unknown, strict=True) if not unknown]


def _said(problem: Problem, data: Mapping[str, Any]) -> str:
    at, said = str(problem["at"]), str(problem["problem"])
    if said == _UNKNOWN:
        return _unknown(at)
    return _no_text(at, data) if said == _NO_TEXT else said


def _unknown(at: str) -> str:
    above, _, name = at.rpartition(".")
    fields = [*_FIELDS.get(above, ())]
    other = _OTHER_NAMES.get(name.lower(), "")
    meant = other if other.split(" ")[0] in fields else next(iter(difflib.get_close_matches(name, fields, n=1)), "")
    return f"there is no such field: did you mean {meant}?" if meant else "there is no such field"


def _no_text(at: str, data: Mapping[str, Any]) -> str:
    value: Any = data
    for part in at.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool | int | float):
        return f'it must be a text: write it in quotes, like "{str(value).lower()}"'
    return "it must be a text; leave the field out if there is none" if value is None else "it must be a text"
