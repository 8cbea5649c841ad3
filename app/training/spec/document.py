"""A spec as text, YAML or JSON: read, refused with messages for its author, and written as tidy YAML.

Whatever the input, only our own errors are raised; a misspelled field comes first among the problems.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import yaml
from pydantic import BaseModel

from app.kit.errors import BadInput, TooLarge
from app.kit.text import plain_yaml
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_yaml import FLOAT, MAX_DEPTH, MAX_PARTS, PlainDumper, UnreadableYaml
from app.kit.text.untrusted_json import NestedTooDeeply, UnreadableJson, read_json
from app.kit.web.http import checked
from app.training.errors import BadSpec, UnreadableSpec
from app.training.spec.fields import ConvertSpec, TaskSpec

Document = TypeVar("Document", bound=BaseModel)


class Problem(TypedDict):
    at: str
    """The path of the field."""
    problem: str


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
"""Other names of fields that do not look similar."""
_PYDANTICS = "Input should be "
_MISSING = "Field required"
_UNKNOWN, _NO_TEXT = "Extra inputs are not permitted", "Input should be a valid string"


def in_words(problems: Sequence[Problem], data: Mapping[str, Any]) -> list[Problem]:
    """problems: from pydantic. data: the input."""
    sentences: list[Problem] = [{"at": one["at"], "problem": _describe_problem(one, data)} for one in problems]
    is_unknown = [problem["problem"] == _UNKNOWN for problem in problems]
    first = [problem for problem, unknown in zip(sentences, is_unknown, strict=True) if unknown]
    return first + [problem for problem, unknown in zip(sentences, is_unknown, strict=True) if not unknown]


def _describe_problem(problem: Problem, data: Mapping[str, Any]) -> str:
    at, sentence = problem["at"], problem["problem"]
    if sentence == _UNKNOWN:
        return _describe_unknown(at)
    if sentence == _MISSING:
        return "it is needed"
    if sentence == _NO_TEXT:
        return _describe_no_text(at, data)
    sentence = sentence.replace(_PYDANTICS, "it must be ", 1)
    near = difflib.get_close_matches(str(_find_value(at, data)), re.findall(r"'([^']+)'", sentence), n=1)
    return f"{sentence}: did you mean {near[0]}?" if near else sentence


def _describe_unknown(at: str) -> str:
    above, _, name = at.rpartition(".")
    fields = [*_FIELDS.get(above, ())]
    other = _OTHER_NAMES.get(name.lower(), "")
    meant = other if other.split(" ")[0] in fields else next(iter(difflib.get_close_matches(name, fields, n=1)), "")
    return f"there is no such field: did you mean {meant}?" if meant else "there is no such field"


def _describe_no_text(at: str, data: Mapping[str, Any]) -> str:
    value = _find_value(at, data)
    if isinstance(value, bool | int | float):
        return f'it must be a text: write it in quotes, like "{str(value).lower()}"'
    return "it must be a text; leave the field out if there is none" if value is None else "it must be a text"


def _find_value(at: str, data: Mapping[str, Any]) -> Any:
    value: Any = data
    for part in at.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


MAX_SPEC_BYTES = 64 * 1024
HINT = "What a task may say is described at /openapi.json; the page New task writes one for you."
_TEXT_HINT = "Send a YAML or JSON text in UTF-8."
_INT64 = range(-(1 << 63), 1 << 63)


def read_spec(body: bytes) -> tuple[TaskSpec, str]:
    """Returns the spec, and its text exactly as submitted. It is JSON if it starts with a brace, otherwise YAML.

    Raises:
        TooLarge: It is longer than a spec may be.
        UnreadableSpec: It is neither YAML nor JSON.
        BadSpec: A field is invalid; detail: problems, a list of {at, problem}.
    """
    return read_document(TaskSpec, body)


def read_document(model: type[Document], body: bytes) -> tuple[Document, str]:
    """The same as `read_spec` for any kind of document."""
    data, text = read_fields(body)
    try:
        return checked(lambda: model.model_validate(data)), text
    except BadInput as error:
        raise bad(in_words(error.detail["problems"], data)) from None


def read_fields(body: bytes) -> tuple[JsonObject, str]:
    """The fields, whatever they are, and the text. Arguments and errors as of `read_spec`."""
    if len(body) > MAX_SPEC_BYTES:
        raise TooLarge(f"The spec of a task may have {MAX_SPEC_BYTES} bytes.", hint="Data belongs into files.")
    text = _decode(body)
    bare = text.removeprefix("\ufeff")
    data = _read_json(bare) if bare.lstrip().startswith("{") else read_yaml(bare)
    if not isinstance(data, dict):
        kind = "empty" if data is None else "no list of fields"
        raise UnreadableSpec(f"The spec is {kind}.", hint="Write fields and values, like workload: ppo")
    problems: list[Problem] = [{"at": at, "problem": problem} for at, problem in _iterate_strange(data, "")]
    if problems:
        raise bad(problems)
    return data, text


def bad(problems: Sequence[Problem]) -> BadSpec:
    """The problems of a document, the first one as its message."""
    first = problems[0]
    return BadSpec(f"{first['at']}: {first['problem']}", hint=HINT, detail={"problems": problems})


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        message = f"The spec is not UTF-8: byte {error.start} does not belong."
        raise UnreadableSpec(message, hint=_TEXT_HINT) from None


def _read_json(text: str) -> Any:
    try:
        return read_json(text, pairs=_require_unique)
    except NestedTooDeeply:
        raise UnreadableSpec(f"The spec is nested more than {MAX_DEPTH} deep.") from None
    except UnreadableJson as error:
        raise UnreadableSpec(f"The spec is not JSON: {error}.", hint=_TEXT_HINT) from None


def _require_unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    fields: JsonObject = {}
    for key, value in pairs:
        if key in fields:
            raise UnreadableSpec(f"The key {key[:100]!r} is there twice.")
        fields[key] = value
    return fields


def _iterate_strange(value: Any, at: str, depth: int = 1) -> Iterator[tuple[str, str]]:
    """Values that no field accepts, by their place: they could not be stored or forwarded."""
    if isinstance(value, dict | list):
        if depth > MAX_DEPTH:
            raise UnreadableSpec(f"The spec is nested more than {MAX_DEPTH} deep.")
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, below in pairs:
            place = f"{at}.{key}" if at else str(key)
            problem = _find_problem(key)
            if problem:
                yield at or "spec", f"a key of it {problem}"
            else:
                yield from _iterate_strange(below, place, depth + 1)
    else:
        problem = _find_problem(value)
        if problem:
            yield at, f"it {problem}"


def _find_problem(value: Any) -> str | None:
    if isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        return "has a NUL or half a character"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int) and value not in _INT64:
        return "is a number of more than 64 bits"
    return None


class _Dumper(PlainDumper):
    """Quotes texts that would be read as something else."""


def _represent_text(dumper: Any, text: str) -> Any:
    style = None if text.isprintable() else '"'  # in other quotes PyYAML loses line breaks such as U+0085
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))


def write_spec(spec: TaskSpec) -> str:
    """Fields in the order of their declaration; those at their default are omitted."""
    return write_fields(spec.model_dump(mode="json", exclude_defaults=True))


def write_fields(fields: Mapping[str, Any]) -> str:
    """Fields as tidy YAML, whether or not they form a task."""
    return str(yaml.dump(dict(fields), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


_HINT = "YAML is written as fields and values, like workload: ppo"


def read_yaml(text: str) -> Any:
    """Reads YAML; None for an empty text.

    Raises:
        UnreadableSpec: It is not a spec; with the position.
    """
    try:
        return plain_yaml.read_yaml(text)
    except UnreadableYaml as error:
        raise UnreadableSpec(error.message, hint=_HINT) from None


__all__ = ["FLOAT", "MAX_DEPTH", "MAX_PARTS", "read_yaml"]
