"""Describes a JSON value in the OpenAPI document without checking it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core.core_schema import CoreSchema, definitions_schema


@dataclass(frozen=True)
class DescribedType:
    """Annotates a field whose schema is that of another type: Annotated[dict[str, Any], DescribedType(Options)].

    For stored JSON that an earlier version may have written: it is answered as it is, and not refused.
    """

    type: Any

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # Only inside a definitions schema does the type become a component of its own, which others can refer to.
        return handler(definitions_schema(TypeAdapter(self.type).core_schema, []))
