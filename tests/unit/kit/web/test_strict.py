"""Names and labels are texts of one line that read as they are written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from app.accounts.schemas import NewToken, TokenForm
from app.conversion.archive_schemas import ArchiveQuery
from app.conversion.schemas import BulkChange, JobChange, NewJob
from app.exchange.schemas import NewDeviceResult, NewExport
from app.kit.errors import BadInput
from app.kit.web.http import checked

KEYS = {"model_key": "m", "quant_key": "q"}
FIELDS: list[tuple[type[BaseModel], dict[str, Any], str]] = [
    (NewJob, KEYS, "name"),
    (NewJob, KEYS, "tags"),
    (JobChange, {}, "name"),
    (JobChange, {}, "tags"),
    (BulkChange, {"verb": "tag", "job_ids": ("j",)}, "add_tags"),
    (NewToken, {}, "label"),
    (TokenForm, {}, "label"),
    (NewExport, {"target": "hf://a/b"}, "registered_model"),
    (NewDeviceResult, {"is_pass": True, "latency_ms": 1.0}, "host"),
]


def given(rest: dict[str, Any], field: str, text: str) -> dict[str, Any]:
    return {**rest, field: (text,) if "tags" in field else text}


@pytest.mark.parametrize(("schema", "rest", "field"), FIELDS)
@pytest.mark.parametrize("hidden", ["\0", "\n", "\x1b", "\x9b", "\u2028", "\u202e", "\u2066"])
def test_what_cannot_be_seen_is_no_name(schema: type[BaseModel], rest: dict[str, Any], field: str, hidden: str) -> None:
    with pytest.raises(ValidationError):
        schema.model_validate(given(rest, field, f"a{hidden}b"))
    schema.model_validate(given(rest, field, "模型 ✓ ½ 👨‍👩‍👧 é"))


def test_the_refusal_is_in_words() -> None:
    with pytest.raises(BadInput, match=r"^name: Input should be a line without control characters$"):
        checked(lambda: JobChange(name="a\x1b"))


@pytest.mark.parametrize("text", ["2026-11-20", "2026-11-20T00:00:00Z", "2026-11-20T08:00:00+08:00"])
def test_a_day_is_its_beginning_in_utc(text: str) -> None:
    assert ArchiveQuery.model_validate({"since": text}).since == datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-11-20T08:00:00", "", "2026-02-30", "2026", "0.5"])
def test_what_is_no_time_is_told_how_one_is_written(text: str) -> None:
    with pytest.raises(BadInput, match=r"^since: A time has a date and its offset"):
        checked(lambda: ArchiveQuery.model_validate({"since": text}))


def test_a_day_before_the_calendar_is_refused() -> None:
    with pytest.raises(BadInput, match="between the years"):
        checked(lambda: ArchiveQuery.model_validate({"since": "0001-01-01"}))
