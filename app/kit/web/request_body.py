"""Bodies of requests that are small enough to be held in memory."""

from __future__ import annotations

from starlette.requests import Request

from app.kit.errors import TooLarge


async def whole_body(request: Request, most_bytes: int, what: str, *, hint: str = "") -> bytes:
    """what: as `A form`. Raises TooLarge."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise TooLarge(f"{what} may have {most_bytes} bytes here.", hint=hint)
    return bytes(body)
