"""The base of all bodies and queries from outside, and the type of their times."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from app.kit.clock import within_our_calendar


def _read_moment(value: Any, read: ValidatorFunctionWrapHandler) -> datetime:
    """Reads a time with its offset, or a date, which is the beginning of that day in UTC.

    A number is refused: pydantic reads it as seconds since 1970, and so the year 2026 as a moment of that year.
    """
    try:
        return datetime.combine(date.fromisoformat(value), time(), UTC)
    except (TypeError, ValueError):
        pass
    try:
        moment: datetime = read(value if ":" in str(value) else None)
    except ValidationError:
        raise ValueError(
            "A time has a date and its offset from UTC, such as 2026-11-20T08:00:00Z; a day (UTC) is 2026-11-20."
        ) from None
    return moment


Moment = Annotated[AwareDatetime, WrapValidator(_read_moment), AfterValidator(within_our_calendar)]
"""A time with its offset from UTC, or a day in UTC, that `app.kit.clock` can write."""


def empty_as_none(value: Any) -> Any:
    """For `field_validator(…, mode="before")`: a form sends a field that was left empty as an empty text."""
    return None if value == "" else value


TEXT = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$"
"""Pattern of a text of one line: without control characters, and without those that reverse what is read."""


class Strict(BaseModel):
    """Refuses unknown fields. The API documentation describes its fields by their docstrings."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
