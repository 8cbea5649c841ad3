"""Where the pages of a file are. Pure."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from app.homes.home_paths import HomePath

DATA = "/ui/data"
FILES = f"{DATA}/files"
COMMON = f"{DATA}/common"


def url_of(location: HomePath, **query: str | None) -> str:
    """The page of a folder or file.

    Args:
        query: what is None or empty is omitted.
    """
    base = COMMON if location.is_common else FILES
    return with_query(f"{base}/{quote(location.inner)}" if location.inner else base, **query)


def with_query(page: str, /, **query: str | None) -> str:
    encoded = urlencode({name: value for name, value in query.items() if value})
    return f"{page}?{encoded}" if encoded else page
