"""URLs without credentials."""

from __future__ import annotations

import re

CREDENTIALS = re.compile(r"(user(?:name)?|pass(?:wd|word)?|pwd)=[^&/?#]*", re.IGNORECASE)
"""Credentials in the path, as in some cameras' URLs: `/user=admin&password=…&channel=1`."""


def without_credentials(pattern: str) -> str:
    """Returns a URL or pattern without user and password, including those that a camera expects in the path.

    A password with a `/` that is not encoded as %2F looks like a host and a path: everything before its `@` is removed.
    """
    scheme, is_url, rest = pattern.partition("://")
    if not is_url:
        return pattern
    rest = re.sub(r"^[^/]*@", "", rest)
    rest = re.sub(r"^[^?]*@", "…@", rest)
    return f"{scheme}://" + CREDENTIALS.sub(r"\1=…", rest)
