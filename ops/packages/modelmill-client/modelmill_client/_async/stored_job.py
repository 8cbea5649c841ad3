"""The files of a job, of the list of jobs or of the archive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from modelmill_client._async.transport import AsyncTransport, OnBytes
from modelmill_client.errors import error_of
from modelmill_client.inputs import PathLike
from modelmill_client.quality import Quality, quality_of

INPUTS = {"model.onnx", "quant.zip"}
Record = dict[str, Any]


class AsyncStoredJob:
    """A job that has files.

    Args:
        transport: Of the service.
        record: As the service last told it.
    """

    collection: str
    """The path below which the service has it."""

    def __init__(self, transport: AsyncTransport, record: Record) -> None:
        self._transport = transport
        self.record = record

    @property
    def id(self) -> str:
        return str(self.record["job_id"])

    @property
    def name(self) -> str:
        return str(self.record.get("name", ""))

    @property
    def quality(self) -> Quality:
        """How well the quantized model keeps to the original; falsy until that was measured."""
        return quality_of(self.record)

    @property
    def _path(self) -> str:
        return f"{self.collection}/{quote(self.id, safe='')}"

    async def share(self, *, days: int = 7, label: str = "") -> str:
        """A link by which others see it without an account; it is shown this once."""
        path = f"/jobs/{quote(self.id, safe='')}/shares"
        body = {"days": days, "label": label}
        return str((await self._transport.json("POST", path, json=body))["url"])

    async def artifacts(self) -> list[Record]:
        """Its files: name, size_bytes, sha256."""
        raise NotImplementedError

    async def report(self, stage: str) -> Record:
        """What a stage (onnx, bie or nef) found out."""
        return await self._transport.json("GET", f"{self._path}/artifacts/{stage}.json")

    async def download(self, folder: PathLike, *, names: Sequence[str] | None = None) -> dict[str, Path]:
        """Results, reports and logs, or the files that are named, each checked against its SHA-256.

        Returns:
            Name → where it is.

        Raises:
            NotFound: It has no file of one of the names.
        """
        target = Path(folder)
        artifacts = {artifact["name"]: artifact for artifact in await self.artifacts()}
        chosen = sorted(artifacts.keys() - INPUTS) if names is None else list(names)
        missing = [name for name in chosen if name not in artifacts]
        if missing:
            there = f"It has: {', '.join(sorted(artifacts)) or 'none'}."
            refusal = {"code": "ARTIFACT_NOT_READY", "message": f"the job has no {', '.join(missing)}", "hint": there}
            raise error_of(404, refusal)
        target.mkdir(parents=True, exist_ok=True)
        return {name: await self.download_file(artifacts[name], target) for name in chosen}

    async def download_file(self, artifact: Record, folder: Path, on_bytes: OnBytes = lambda _: None) -> Path:
        """One of `artifacts`, into the folder under its name."""
        name = Path(artifact["name"]).name
        path = f"{self._path}/artifacts/{quote(name, safe='')}"
        return await self._transport.save(path, folder / name, artifact["sha256"], on_bytes)
