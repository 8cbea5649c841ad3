"""The files under /static, with URLs that change with their content."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.kit.files import data_folder

FOLDER = data_folder("static")
FOR_EVER = "public, max-age=31536000, immutable"


def static_url(name: str) -> str:
    """URL of a file in static/, with a hash of its content: it may be cached forever."""
    path = FOLDER / name
    return f"/static/{name}?v={_digest_file(path, path.stat().st_mtime_ns)}"


@lru_cache(maxsize=256)
def _digest_file(path: Path, _changed_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


class HashedFiles(StaticFiles):
    """Like StaticFiles; files with a hash or version in their name are cached forever, others are revalidated each
    time."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        is_versioned = b"v=" in scope["query_string"] or path.startswith("vendor/")  # the names contain versions
        response.headers["Cache-Control"] = FOR_EVER if is_versioned else "no-cache"
        return response
