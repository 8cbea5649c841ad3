"""The base of all bodies and queries from outside."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Refuses unknown fields. The API documentation describes its fields by their docstrings."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
