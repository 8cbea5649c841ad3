"""The header with which a browser saves an answer as a file."""

from __future__ import annotations

from urllib.parse import quote


def attachment(name: str) -> str:
    """Returns a Content-Disposition for a file name with any characters (RFC 6266): if the name needs quoting, then
    also one of ASCII characters for programs that do not read the exact one.
    """
    exact = quote(name.encode("utf-8", "replace"), safe="")
    if exact == name:
        return f'attachment; filename="{name}"'
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%;' else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"
