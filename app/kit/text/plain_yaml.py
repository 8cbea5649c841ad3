"""The plain part of YAML: mappings, lists and scalars, without anchors, aliases, tags and merge keys.

Scalars are read like OmegaConf, which verl uses: YAML 1.1, but 1e-6 is a number, and dates and 1:30 are text. It works
on the parser's events, so nothing is built before it has been checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

MAX_DEPTH = 20
MAX_PARTS = 5000
"""The parser handles about ten thousand per second; a spec has a hundred."""
TRUE = frozenset({"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
FALSE = frozenset({"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
NULL = frozenset({"", "~", "null", "Null", "NULL"})
INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,99})")
HEX = re.compile(r"0x[0-9a-fA-F]{1,32}")
FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class UnreadableYaml(BadRequest, code="YAML_UNREADABLE"): ...


class PlainDumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML carries no types
    """Writes no anchors: what occurs twice is written twice."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def read_yaml(text: str) -> Any:
    """Returns the single document. None for an empty text.

    Raises:
        UnreadableYaml: As `read_documents`.
    """
    documents = read_documents(text, most=1)
    return documents[0] if documents else None


def read_documents(text: str, *, most: int, parts: int = MAX_PARTS) -> list[Any]:
    """Returns the non-empty documents.

    Args:
        text: YAML.
        most: the maximum number of documents.
        parts: the maximum number of parts of all documents.

    Raises:
        UnreadableYaml: The text is invalid, or exceeds the limits.
    """
    try:
        return _read_documents(_iterate_some(yaml.parse(text, Loader=yaml.SafeLoader), parts), most)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _refuse(str(error.problem or error.context), mark)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        raise UnreadableYaml(f"line {line}, column {column}: U+{error.character:04X} is not allowed") from None
    except (ValueError, OverflowError):  # \U7FFFFFFF is no character, %YAML 1.999… no version; the parser raises this
        raise UnreadableYaml("This is not YAML: a number in it is out of range.") from None


def _iterate_some(events: Iterator[Any], parts: int) -> Iterator[Any]:
    for count, event in enumerate(events):
        if count == parts:
            _refuse(f"it has more than {parts} parts", event.start_mark)
        yield event


def _read_documents(events: Iterator[Any], most: int) -> list[Any]:
    documents: list[Any] = []
    count = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            if count == most:
                problem = "there is more than one document" if most == 1 else f"there are more than {most} documents"
                _refuse(problem, event.start_mark)
            if event.tags:
                _refuse("tags are not taken here", event.start_mark)
            count += 1
            documents.append(_read_value(next(events), events, 1))
    return [document for document in documents if document is not None]


def _read_value(event: Any, events: Iterator[Any], depth: int) -> Any:
    _check_plain(event, depth)
    if isinstance(event, yaml.ScalarEvent):
        return _read_scalar(event)
    if isinstance(event, yaml.SequenceStartEvent):
        return [_read_value(item, events, depth + 1) for item in _iterate_until(yaml.SequenceEndEvent, events)]
    return _read_mapping(events, depth)


def _read_mapping(events: Iterator[Any], depth: int) -> JsonObject:
    mapping: JsonObject = {}
    for event in _iterate_until(yaml.MappingEndEvent, events):
        key = _read_value(event, events, depth + 1)
        if not isinstance(key, str):
            _refuse("a key must be a text", event.start_mark)
        if key in mapping:
            _refuse(f"the key {key[:100]!r} is there twice", event.start_mark)
        mapping[key] = _read_value(next(events), events, depth + 1)
    return mapping


def _iterate_until(end: type[Any], events: Iterator[Any]) -> Iterator[Any]:
    for event in events:
        if isinstance(event, end):
            return
        yield event


def _check_plain(event: Any, depth: int) -> None:
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        _refuse("anchors and aliases (& and *) are not taken here; write it out, or put it in quotes", event.start_mark)
    if event.tag is not None:
        _refuse("tags (!) are not taken here; put it in quotes", event.start_mark)
    if depth > MAX_DEPTH and not isinstance(event, yaml.ScalarEvent):
        _refuse(f"it is nested more than {MAX_DEPTH} deep", event.start_mark)


def _read_scalar(event: Any) -> Any:
    text = str(event.value)
    if not event.implicit[0]:
        return text  # it is quoted
    if text in NULL:
        return None
    if text in TRUE or text in FALSE:
        return text in TRUE
    if INT.fullmatch(text):
        return int(text.replace("_", ""))
    if HEX.fullmatch(text):
        return int(text, 16)
    return float(_to_python_float(text)) if FLOAT.fullmatch(text) else text


def _to_python_float(text: str) -> str:
    return text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")


def _refuse(problem: str, mark: Any) -> NoReturn:
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    raise UnreadableYaml(f"{where}{problem}") from None
