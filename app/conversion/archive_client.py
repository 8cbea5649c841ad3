"""A client of the archive's API for programs and the command line. Prints nothing. Its errors: see ApiClient."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.kit.cli.api_client import ApiClient, told

Record = dict[str, Any]
MOST_PER_PAGE = 200


class ArchiveClient(ApiClient):
    def jobs(self, *, limit: int = 50, **filters: str | float | None) -> Iterator[Record]:
        """The last finished first, page by page, at most `limit`. filters: as GET /archive has them."""
        params: Record = {name: value for name, value in filters.items() if value is not None}
        left = limit
        while left > 0:
            page = self._json("GET", "/archive", params={**params, "limit": min(left, MOST_PER_PAGE)})
            yield from page["jobs"]
            left -= len(page["jobs"])
            if not page["next_cursor"]:
                return
            params["cursor"] = page["next_cursor"]

    def job(self, job_id: str) -> Record:
        """{"job": as it was at its end, "is_kept"}."""
        return self._json("GET", f"/archive/{job_id}")

    def download(self, job_id: str, artifact: Record, folder: Path) -> Path:
        """Into folder/name, under another name until its sha256 has been checked."""
        name = artifact["name"]
        path = f"/archive/{job_id}/artifacts/{quote(name, safe='')}"
        with told():
            return self._client.transport.save(path, folder / name, artifact["sha256"], lambda _: None)

    def keep(self, job_id: str, *, is_kept: bool) -> Record:
        return self._json("PUT", f"/archive/{job_id}/keep", json={"is_kept": is_kept})

    def remove(self, job_id: str) -> None:
        with self._answer("DELETE", f"/archive/{job_id}"):
            pass
