"""What a form sends that has a field `text` and, for those who would rather choose a file, a `file` that stands for it.

Small, so it is held in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

from multipart import MultipartSegment
from starlette.requests import Request

from app.kit.errors import TooLarge
from app.kit.web.multipart import multipart_parts
from app.kit.web.request_body import whole_body

FILE, TEXT = "file", "text"
HINT = "Data belongs into files."
ENCODED = 6
"""So much longer than its text a whole form may be: url-encoding makes three bytes of one."""


async def sent_fields(request: Request, *, most_bytes: int, what: str) -> dict[str, str]:
    """By name, the last of each.

    Args:
        request: with a form.
        most_bytes: of its body.
        what: as `A service`, which may have so many.

    Raises:
        TooLarge, BadRequest
    """

    def check(size: int) -> None:
        if size > ENCODED * most_bytes:
            raise TooLarge(f"{what} may have {most_bytes} bytes here.", hint=HINT)

    if request.headers.get("content-type", "").startswith("multipart/"):
        return await _multipart(request, check)
    body = await whole_body(request, ENCODED * most_bytes, what, hint=HINT)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in fields.items()}


async def _multipart(request: Request, check: Callable[[int], None]) -> dict[str, str]:
    parts_by_name: dict[str, bytes] = {}
    name, size = "", 0
    async for part in multipart_parts(request, hint="The page's form sends it."):
        if isinstance(part, MultipartSegment):
            name = str(part.name)
            parts_by_name[name] = b""
            size += len(name)
        else:
            parts_by_name[name] += part
            size += len(part)
        check(size)
    texts = {name: data.decode("utf-8", "replace") for name, data in parts_by_name.items()}
    if parts_by_name.get(FILE):
        texts[TEXT] = texts[FILE]
    return texts
