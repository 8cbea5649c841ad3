"""URLs as others may see them."""

from __future__ import annotations

import re

CREDENTIALS = re.compile(r"(user(?:name)?|pass(?:wd|word)?|pwd)=[^&/?#]*", re.IGNORECASE)
"""As some cameras have them in the path: `/user=admin&password=…&channel=1`."""


def without_credentials(pattern: str) -> str:
    """What others may see of a URL or pattern: without user and password, also where a camera wants them in the path.

    A password with a `/` that is not written as %2F looks like a host and a path: nothing before its `@` is told.
    """
    scheme, is_url, rest = pattern.partition("://")
    if not is_url:
        return pattern
    rest = re.sub(r"^[^/]*@", "", rest)
    rest = re.sub(r"^[^?]*@", "…@", rest)
    return f"{scheme}://" + CREDENTIALS.sub(r"\1=…", rest)
