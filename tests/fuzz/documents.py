"""JSON documents: what a schema allows, what it almost allows, and what it does not know."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=30)
    | st.sampled_from(["", "\x00", "../..", "9" * 400, "\u202e", "<script>", "NaN", "x" * 2000])
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
)
DEEP = st.sampled_from([b"[" * 50_000, b'{"options":' * 3000, b'{"a":' * 900 + b"1" + b"}" * 900])


def documents(model: type[BaseModel]) -> st.SearchStrategy[bytes]:
    """Bodies for an endpoint that takes this model."""
    schema = model.model_json_schema()
    allowed = _of(schema, schema.get("$defs", {}))
    return st.one_of(allowed.map(_encoded), _spoilt(allowed).map(_encoded), ANYTHING.map(_encoded), st.binary(), DEEP)


def _encoded(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")


@st.composite
def _spoilt(draw: st.DrawFn, allowed: st.SearchStrategy[Any]) -> Any:
    """An allowed document with something else somewhere in it."""
    document = copy.deepcopy(draw(allowed))
    place = document
    while isinstance(place, dict) and place:
        key = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or draw(st.booleans()):
            place[key] = draw(ANYTHING)
            return document
        place = place[key]
    return draw(ANYTHING)


def _of(schema: dict[str, Any], defs: dict[str, Any]) -> st.SearchStrategy[Any]:
    """As much of JSON Schema as pydantic writes for our models."""
    if "$ref" in schema:
        return _of(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([_of(one, defs) for one in schema["anyOf"]])
    return _of_type(schema, defs)


def _of_type(schema: dict[str, Any], defs: dict[str, Any]) -> st.SearchStrategy[Any]:
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, defs)
    if kind == "array":
        inner = _of(schema["items"], defs) if "items" in schema else ANYTHING
        return st.lists(inner, min_size=schema.get("minItems", 0), max_size=min(schema.get("maxItems", 5), 5))
    if kind == "string":
        return _string(schema)
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", schema.get("exclusiveMinimum", -10)), schema.get("maximum", 100_000)
        return st.integers(int(low), int(high)) if kind == "integer" else st.floats(low, high)
    return {"boolean": st.booleans(), "null": st.none()}.get(kind or "", ANYTHING)


def _object(schema: dict[str, Any], defs: dict[str, Any]) -> st.SearchStrategy[Any]:
    fields = {name: _of(one, defs) for name, one in schema.get("properties", {}).items()}
    if not fields:
        return st.dictionaries(st.text(max_size=8), _of(schema.get("additionalProperties") or {}, defs), max_size=3)
    required = set(schema.get("required", ()))
    must = {name: fields.pop(name) for name in required}
    return st.fixed_dictionaries(must, optional=fields)


def _string(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        return st.from_regex(schema["pattern"])
    return st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 40), 40))
