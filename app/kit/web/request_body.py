"""Bodies of requests that are small enough to be held in memory."""

from __future__ import annotations

from starlette.requests import Request

from app.kit.errors import TooLarge


async def whole_body(request: Request, most_bytes: int, what: str, *, hint: str = "") -> bytes:
    """The body of a request.

    Args:
        request: whose body.
        most_bytes: its size at most.
        what: as `A form`, which may have so many.
        hint: what to do about a larger one.

    Raises:
        TooLarge
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise TooLarge(f"{what} may have {most_bytes} bytes here.", hint=hint)
    return bytes(body)
