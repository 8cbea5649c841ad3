"""A completed job of the archive, which also a restart of the system does not forget."""

from __future__ import annotations

from typing import Any

from modelmill_client._async.job import AsyncJob
from modelmill_client._async.stored_job import AsyncStoredJob
from modelmill_client._async.transport import AsyncTransport
from modelmill_client.progress import html_of, line_of


class AsyncArchivedJob(AsyncStoredJob):
    """record: as it was at its end."""

    collection = "/archive"

    def __init__(self, transport: AsyncTransport, archived: dict[str, Any]) -> None:
        super().__init__(transport, archived["job"])
        self.is_kept = bool(archived["is_kept"])
        """Whether it is kept permanently; otherwise it expires."""

    def __repr__(self) -> str:
        return f"<ArchivedJob {line_of(self.record)}>"

    def _repr_html_(self) -> str:
        return html_of(self.record)

    async def artifacts(self) -> list[dict[str, Any]]:
        """Its files: name, size_bytes, sha256."""
        return [{"name": name, **artifact} for name, artifact in self.record["artifacts"].items()]

    async def edit(self, **values: Any) -> AsyncArchivedJob:
        """values: name, tags, notes, keep; what is left out stays."""
        archived = await self._transport.json("PATCH", self._path, json=values)
        self.record, self.is_kept = archived["job"], bool(archived["is_kept"])
        return self

    async def keep(self, is_kept: bool = True) -> AsyncArchivedJob:
        """Keep it permanently, or let it expire again."""
        return await self.edit(keep=is_kept)

    async def delete(self) -> None:
        """Delete it and all its files permanently."""
        await self._transport.json("DELETE", self._path)

    async def convert_again(self) -> AsyncJob:
        """Convert its inputs again. Returns the new job.

        Raises:
            NotFound: They are no longer stored.
        """
        return AsyncJob(self._transport, await self._transport.json("POST", f"{self._path}/convert"))
