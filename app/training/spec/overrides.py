"""Settings of verl that a task changes: a text, a number, true, false, null, or lists and maps of these. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue, PlainValidator

from app.training.spec.texts import MAX_WORDS_BYTES, pathless, short_enough, unfit, visible
from app.training.spec.verl_keys import NAME, check_key

MAX_OVERRIDES = 100
MAX_TEXT = 1000
INTERPOLATION = "${"
"""With this Hydra begins what it replaces, by environment variables among others."""
_NAME = re.compile(NAME)
_NO_NAMES = frozenset({"true", "false", "null", "inf", "nan"})
"""As the key of a map Hydra reads them as something else than a text."""


def keys_in(key: str, value: JsonValue) -> Iterator[str]:
    """The key, and those of the maps in its value, in the way in which they would be written by themselves."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from keys_in(f"{key}.{name}", below)
        if value:
            return
    if isinstance(value, list):
        for below in value:
            if isinstance(below, dict | list):
                yield from keys_in(key, below)
    yield key


def _value(value: Any) -> JsonValue:
    if isinstance(value, dict):
        return {_name(name): _value(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_value(below) for below in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise unfit("it must be a finite number")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise unfit("it must be a text, a number, true, false, null, or a list or map of these")


def _text(value: str) -> str:
    if len(value) > MAX_TEXT:
        raise unfit(f"it is longer than {MAX_TEXT} characters")
    if INTERPOLATION in value:
        raise unfit(f"{INTERPOLATION} is not taken")
    if "/" in pathless(visible(value)):
        raise unfit("it names a path, a repository or an address: the fields of the task do that, which are checked")
    return value


def _name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _NO_NAMES:
        raise unfit(f"{str(name)[:200]!r} is no key of a setting: letters, digits, _ and - are")
    return name


def _overrides(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if len(values) > MAX_OVERRIDES:
        raise unfit(f"there are more than {MAX_OVERRIDES}")
    for key, value in values.items():
        for named in {key: None, **dict.fromkeys(keys_in(key, value))}:
            check_key(named)
    if not short_enough(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items()):
        raise unfit(f"they are longer than {MAX_WORDS_BYTES // 1024} KiB together")
    return values


_Value = Annotated[JsonValue, PlainValidator(_value, json_schema_input_type=JsonValue)]
Overrides = Annotated[dict[str, _Value], AfterValidator(_overrides)]
