"""What the forms of services send."""

from __future__ import annotations

from starlette.requests import Request

from app.joint_inference.documents import MAX_BYTES
from app.kit.web.forms import sent_fields


async def sent_texts(request: Request) -> dict[str, str]:
    """By name; lines end as on Unix. Raises TooLarge, BadRequest."""
    fields = await sent_fields(request, most_bytes=MAX_BYTES, what="A service")
    return {name: value.replace("\r\n", "\n") for name, value in fields.items()}
