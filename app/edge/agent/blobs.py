"""Files that workers need, each stored once under its sha256: downloaded, verified, and deleted when no order names
them.

An interrupted download is resumed. A file is used only after it was verified since the agent's start.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections import defaultdict
from collections.abc import Collection
from http import HTTPStatus
from pathlib import Path

import httpx

from app.edge.agent.driver import Blob, WorkRefused
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import Unreachable
from app.kit.errors import ModelmillError
from app.kit.files import NO_SPACE, make_private, sha256_of

SHA256 = re.compile(r"[0-9a-f]{64}")
logger = logging.getLogger(__name__)


class FileUnavailable(ModelmillError, code="NODE_NOT_NOW", can_retry=True):
    """A file that a worker needs is not available now."""

    def __init__(self, message: str, *, reason: str) -> None:
        """
        Args:
            reason: CamelCase, for a condition.
        """
        super().__init__(message)
        self.reason = reason


class BlobCache:
    """The files in one folder, for one event loop."""

    def __init__(self, folder: Path, web: WebClient) -> None:
        self.folder = make_private(folder)
        self._web = web
        self._checked = set[str]()
        self._locks = defaultdict[str, asyncio.Lock](asyncio.Lock)

    def has(self, blob: Blob) -> bool:
        return blob.sha256 in self._checked and self._get_path(blob).exists()

    async def get(self, blob: Blob) -> Path:
        """Returns the verified file; a missing one is downloaded first.

        Raises:
            WorkRefused: Its name is not a sha256.
            FileUnavailable: The disk is full, the web does not have the file, or it arrived damaged.
            Unreachable: The web does not answer, or the transfer broke off.
        """
        if SHA256.fullmatch(blob.sha256) is None:
            raise WorkRefused(f"{blob.sha256!r} is no sha256.", reason="BadFile")
        async with self._locks[blob.sha256]:
            if not self.has(blob) and not await asyncio.to_thread(self._is_whole, self._get_path(blob), blob):
                await self._fetch(blob)
            self._checked.add(blob.sha256)
        return self._get_path(blob)

    def keep_only(self, needed: Collection[str]) -> None:
        """Delete all other files, partial downloads included."""
        for file in self.folder.iterdir():
            sha256 = file.name.removesuffix(".part")
            if sha256 not in needed and not self._locks[sha256].locked():
                file.unlink(missing_ok=True)
                self._checked.discard(sha256)

    def _get_path(self, blob: Blob) -> Path:
        return self.folder / blob.sha256

    async def _fetch(self, blob: Blob) -> None:
        draft = self._get_path(blob).with_suffix(".part")
        try:
            await self._download(blob, draft)
            if not await asyncio.to_thread(self._is_whole, draft, blob):
                draft.unlink(missing_ok=True)
                raise FileUnavailable(f"The file {blob.sha256[:12]}… arrived damaged.", reason="FileDamaged")
            draft.replace(self._get_path(blob))
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            draft.unlink(missing_ok=True)
            raise _make_no_room(blob) from error

    async def _download(self, blob: Blob, draft: Path) -> None:
        start = draft.stat().st_size if draft.exists() else 0
        if start >= blob.size_bytes:  # no bytes are missing: it is complete, or wrong
            start = 0
        if shutil.disk_usage(self.folder).free < blob.size_bytes - start:
            raise _make_no_room(blob)
        try:
            async with self._web.blob(blob.sha256, start) as answer:
                await _save(answer, draft, blob.size_bytes)
        except ApiError as error:
            if error.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                draft.unlink(missing_ok=True)
            raise FileUnavailable(
                f"The web does not give the file {blob.sha256[:12]}…: {error}", reason="FileMissing"
            ) from error

    @staticmethod
    def _is_whole(file: Path, blob: Blob) -> bool:
        if not file.is_file() or file.stat().st_size != blob.size_bytes:
            return False
        return sha256_of(file) == blob.sha256


async def _save(answer: httpx.Response, draft: Path, most_bytes: int) -> None:
    """Appends a partial response (206), or replaces the file by a whole one. Stops when more arrives than expected."""
    is_rest = answer.status_code == HTTPStatus.PARTIAL_CONTENT
    with draft.open("ab" if is_rest else "wb") as file:
        try:
            async for chunk in answer.aiter_bytes():  # written as it arrives, so that an interruption loses nothing
                if file.tell() + len(chunk) > most_bytes:
                    file.truncate(0)
                    return
                await asyncio.to_thread(file.write, chunk)
        except httpx.HTTPError as error:
            raise Unreachable(f"A file broke off on the way: {error or type(error).__name__}") from error


def _make_no_room(blob: Blob) -> FileUnavailable:
    return FileUnavailable(
        f"A file of {blob.size_bytes} bytes cannot be fetched: there is no space left on the disk.", reason="DiskFull"
    )
