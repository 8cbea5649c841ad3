"""What all bodies and queries that come from outside are made on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Refuses what it does not know. The documents of the API describe its fields by their docstrings."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
