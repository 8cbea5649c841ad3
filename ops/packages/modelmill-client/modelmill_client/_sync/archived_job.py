# Made from _async by generate.py: change that.
"""A completed job of the archive, which also a restart of the system does not forget."""

from __future__ import annotations

from typing import Any

from modelmill_client._sync.job import Job
from modelmill_client._sync.stored_job import StoredJob
from modelmill_client._sync.transport import Transport
from modelmill_client.progress import html_of, line_of


class ArchivedJob(StoredJob):
    """record: as it was at its end."""

    collection = "/archive"

    def __init__(self, transport: Transport, archived: dict[str, Any]) -> None:
        super().__init__(transport, archived["job"])
        self.is_kept = bool(archived["is_kept"])
        """Whether it is kept permanently; otherwise it expires."""

    def __repr__(self) -> str:
        return f"<ArchivedJob {line_of(self.record)}>"

    def _repr_html_(self) -> str:
        return html_of(self.record)

    def artifacts(self) -> list[dict[str, Any]]:
        """Its files: name, size_bytes, sha256."""
        return [{"name": name, **artifact} for name, artifact in self.record["artifacts"].items()]

    def edit(self, **values: Any) -> ArchivedJob:
        """values: name, tags, notes, keep; what is left out stays."""
        archived = self._transport.json("PATCH", self._path, json=values)
        self.record, self.is_kept = archived["job"], bool(archived["is_kept"])
        return self

    def keep(self, is_kept: bool = True) -> ArchivedJob:
        """Keep it permanently, or let it expire again."""
        return self.edit(keep=is_kept)

    def delete(self) -> None:
        """Delete it and all its files permanently."""
        self._transport.json("DELETE", self._path)

    def convert_again(self) -> Job:
        """Convert its inputs again. Returns the new job.

        Raises:
            NotFound: They are no longer stored.
        """
        return Job(self._transport, self._transport.json("POST", f"{self._path}/convert"))
