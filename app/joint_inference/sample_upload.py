"""Reads a hard sample off the wire: on the agent from its worker, on the web from the agent."""

from __future__ import annotations

import re
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from app.joint_inference.model.tally import Sample
from app.joint_inference.service.task_info import Time
from app.kit.errors import BadInput
from app.kit.text.json_values import JsonObject
from app.kit.web.forms import small_parts
from app.kit.web.http import checked
from app.nodes.wire import BadFrame, read

MAX_SAMPLE_BYTES = 64 * 1024
MAX_PICTURE_BYTES = 512 * 1024
PICTURES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
HINT = "Send it as multipart/form-data with the parts sample (JSON) and picture (JPEG or PNG)."


async def read_sample(request: Request) -> tuple[Sample, bytes, str]:
    """Returns the sample, its picture, and the content type of this."""
    parts = await small_parts(request, {"sample": MAX_SAMPLE_BYTES, "picture": MAX_PICTURE_BYTES}, hint=HINT)
    sample, picture = (parts[name].data if name in parts else b"" for name in ("sample", "picture"))
    return _read_sample(sample), picture, _choose_content_type(picture)


class _Facts(BaseModel):
    """What of a sample `Sample.from_json` takes as it comes."""

    model_config = ConfigDict(allow_inf_nan=False)

    at: Time
    width: int = Field(gt=0)
    height: int = Field(gt=0)
    why: str
    score: float
    edge_ms: float = 0.0
    cloud_ms: float | None = None
    bytes_up: int = 0
    origin: str = ""
    extra: JsonObject = Field(default_factory=dict)


def _read_sample(text: bytes) -> Sample:
    """wire.read knows what can be read and then not be shown."""
    try:
        data = read(text)
        sample = Sample.from_json(data)
    except (BadFrame, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise BadInput(f"The part sample cannot be read: {type(error).__name__}: {error}.", hint=HINT) from None
    if not isinstance(sample.id, str) or ID.fullmatch(sample.id) is None:
        raise BadInput("The id of a sample has letters, digits, '_', '.' and '-', at most 64.")
    return replace(sample, **checked(lambda: _Facts.model_validate(data)).model_dump())


def _choose_content_type(picture: bytes) -> str:
    for beginning, content_type in PICTURES.items():
        if picture.startswith(beginning):
            return content_type
    raise BadInput("The part picture is neither a JPEG nor a PNG.", hint=HINT)
