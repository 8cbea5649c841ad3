"""Names and labels are texts of one line that read as they are written."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from app.accounts.schemas import NewToken, TokenForm
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
