"""The base of all bodies and queries from outside, and the type of their times."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict

from app.kit.clock import within_our_calendar

Moment = Annotated[AwareDatetime, AfterValidator(within_our_calendar)]
"""A time with its offset from UTC that `app.kit.clock` can write."""

TEXT = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$"
"""Pattern of a text of one line: without control characters, and without those that reverse what is read."""


class Strict(BaseModel):
    """Refuses unknown fields. The API documentation describes its fields by their docstrings."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
