"""A client of the archive's API for programs and the command line. Prints nothing. Its errors: see ApiClient."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.kit.cli.api_client import ApiClient

Record = dict[str, Any]


class ArchiveClient(ApiClient):
    def jobs(self, *, limit: int = 50, **filters: str | float | None) -> Iterator[Record]:
        """The last finished first, page by page, at most `limit`.

        Args:
            filters: as GET /archive has them.
        """
        yield from self._pages("/archive", "jobs", limit=limit, filters=filters)

    def job(self, job_id: str) -> Record:
        """{"job": as it was at its end, "is_kept"}."""
        return self._json("GET", f"/archive/{job_id}")

    def download(self, job_id: str, artifact: Record, folder: Path) -> Path:
        """Into folder/name, under another name until its sha256 has been checked."""
        name = artifact["name"]
        path = f"/archive/{job_id}/artifacts/{quote(name, safe='')}"
        return self._save(path, folder / name, artifact["sha256"])

    def keep(self, job_id: str, *, is_kept: bool) -> Record:
        return self._json("PUT", f"/archive/{job_id}/keep", json={"is_kept": is_kept})

    def remove(self, job_id: str) -> None:
        with self._answer("DELETE", f"/archive/{job_id}"):
            pass
