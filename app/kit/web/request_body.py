"""Bodies of requests that are small enough to be kept in memory."""

from __future__ import annotations

from starlette.requests import Request

from app.kit.errors import TooLarge


async def read_whole_body(request: Request, most_bytes: int, what: str, *, hint: str = "") -> bytes:
    """Returns the body of a request.

    Args:
        request: the request.
        most_bytes: the maximum size.
        what: the subject of the error message, such as `A form`.
        hint: the hint for a larger one.

    Raises:
        TooLarge: It exceeds the maximum.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise TooLarge(f"{what} may have {most_bytes} bytes here.", hint=hint)
    return bytes(body)
