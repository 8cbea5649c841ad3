"""Resumable uploads over HTTP: tus 1.0 at /uploads/resumable. OPERATIONS is its table of routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.conversion.access import conversion_of
from app.conversion.service.resumable_uploads import ResumableUpload, ResumableUploads
from app.kit.errors import Conflict
from app.kit.web import tus
from app.kit.web.auth import user_of
from app.kit.web.operations import Operations
from app.kit.web.thread_stream import hand_over
from app.settings import settings_of

ROOT = "/uploads/resumable"
KEY_HEADER = "Upload-Key"
"""Of a whole upload: its key, to submit a job with."""
_NUMBER = {"type": "string", "pattern": "^[0-9]{1,15}$"}
_VERSION = {"Tus-Resumable": {"type": "string", "const": tus.VERSION}}
_BODY = {"required": True, "content": {tus.BODY_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
_STANDS = {
    "Tus-Resumable": "version of the protocol",
    "Upload-Offset": "bytes that are stored",
    "Upload-Length": "bytes of the whole upload",
    "Upload-Expires": "when it is deleted unless it goes on",
    KEY_HEADER: "once it is whole: its key, to submit a job with",
}
OPERATIONS = Operations({"upload_id": {"type": "string", "format": "uuid"}})


@OPERATIONS.add(
    "OPTIONS",
    ROOT,
    "Get the capabilities of resumable uploads (tus 1.0)",
    {204: None},
    errors=(),
    headers={"Tus-Version": "versions", "Tus-Extension": "extensions", "Tus-Max-Size": "bytes of the largest file"},
)
def resumable_uploads(request: Request) -> Response:
    """What is understood here."""
    settings = settings_of(request)
    return Response(
        status_code=204, headers=tus.describe_capabilities(max(settings.max_model_bytes, settings.max_images_bytes))
    )


@OPERATIONS.post(
    ROOT,
    "Create a resumable upload (tus 1.0) with the metadata `field` (model or images) and `filename`",
    {201: None},
    more_errors=(400, 412, 413, 429, 507),
    sent_headers={**_VERSION, "Upload-Length": _NUMBER, "Upload-Metadata": {"type": "string"}},
    headers={"Location": "where it is continued", **_STANDS},
)
async def begin_resumable_upload(request: Request) -> Response:
    tus.check_version(request)
    metadata, length = tus.metadata_of(request), tus.length_of(request)
    uploads = conversion_of(request).resumable_uploads
    upload = await run_in_threadpool(
        uploads.begin, user_of(request), metadata.get("field", ""), metadata.get("filename", ""), length
    )
    location = f"{ROOT}/{upload.upload_id}"
    return Response(status_code=201, headers={**_build_headers(upload), "Location": location})


@OPERATIONS.add(
    "HEAD",
    f"{ROOT}/{{upload_id}}",
    "Get the offset of a resumable upload",
    {200: None},
    more_errors=(409, 412, 413, 422, 507),
    sent_headers=_VERSION,
    headers=_STANDS,
)
async def get_resumable_upload(request: Request, upload_id: str) -> Response:
    """How far it came. What was still receiving it in this process ends: who asks means to go on."""
    tus.check_version(request)
    user = user_of(request)
    uploads = conversion_of(request).resumable_uploads
    await run_in_threadpool(uploads.check, upload_id, user)  # another user's goes on
    await _receivers.end(upload_id)
    return Response(status_code=200, headers=_build_headers(await run_in_threadpool(uploads.get, upload_id, user)))


@OPERATIONS.patch(
    f"{ROOT}/{{upload_id}}",
    "Continue a resumable upload from its offset",
    {204: None},
    more_errors=(409, 412, 415, 460, 507),
    sent_headers={**_VERSION, "Upload-Offset": _NUMBER, "Upload-Checksum": {"type": "string"}},
    body=_BODY,
    headers=_STANDS,
)
async def continue_resumable_upload(request: Request, upload_id: str) -> Response:
    tus.check_version(request)
    user = user_of(request)
    uploads = conversion_of(request).resumable_uploads
    offset, checksum = tus.offset_of(request), tus.checksum_of(request)
    await run_in_threadpool(uploads.check, upload_id, user)
    async with _receivers.begun(upload_id) as receiver:
        upload = await run_in_threadpool(uploads.get, upload_id, user)
        await receiver.run(_receive(request, uploads, upload, offset, checksum))
    return Response(status_code=204, headers=_build_headers(await run_in_threadpool(uploads.get, upload_id, user)))


async def _receive(
    request: Request, uploads: ResumableUploads, upload: ResumableUpload, offset: int, checksum: tus.Checksum | None
) -> None:
    await hand_over(request.stream(), lambda chunks: uploads.append(upload, offset, chunks, checksum))


@OPERATIONS.delete(
    f"{ROOT}/{{upload_id}}",
    "Cancel a resumable upload and delete its data",
    more_errors=(412,),
    sent_headers=_VERSION,
    headers={"Tus-Resumable": "version of the protocol"},
)
async def discard_resumable_upload(request: Request, upload_id: str) -> Response:
    tus.check_version(request)
    user = user_of(request)
    uploads = conversion_of(request).resumable_uploads
    await run_in_threadpool(uploads.check, upload_id, user)
    await _receivers.end(upload_id)
    await run_in_threadpool(uploads.discard, upload_id, user)
    return Response(status_code=204, headers=tus.headers())


def _build_headers(upload: ResumableUpload) -> dict[str, str]:
    answer = tus.headers(offset=upload.offset, length=upload.length, expires=upload.expires_at)
    return {**answer, KEY_HEADER: upload.key} if upload.key else answer


@dataclass(eq=False)
class _Receiver:
    """Of one request."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    is_replaced: bool = False
    """Another request goes on with its upload."""

    async def run(self, receiving: Coroutine[None, None, None]) -> None:
        """Receives the rest; what came until an error is stored.

        Raises:
            Conflict: Another request replaces this one.
        """
        self.task = asyncio.create_task(receiving)
        if self.is_replaced:
            self.task.cancel()
        try:
            await self.task
        except asyncio.CancelledError:
            if not self.is_replaced:
                raise
            raise Conflict(
                "Another request goes on with this upload.", hint="Ask with HEAD how much has arrived."
            ) from None


class _Receivers:
    """The requests of this process that receive a part: of each upload at most one, the newest.

    A line that broke is often noticed by its sender long before it is here. Other processes' are not reached: there the
    parts are right whoever wins (app.kit.objects.parts).
    """

    def __init__(self) -> None:
        self._by_upload: dict[str, _Receiver] = {}

    async def end(self, upload_id: str) -> None:
        """Have the one of this upload store what it has, and wait until it did."""
        while (receiver := self._by_upload.get(upload_id)) is not None:
            receiver.is_replaced = True
            if receiver.task is not None:
                receiver.task.cancel()
            await receiver.ended.wait()

    @asynccontextmanager
    async def begun(self, upload_id: str) -> AsyncIterator[_Receiver]:
        await self.end(upload_id)
        receiver = self._by_upload[upload_id] = _Receiver()
        try:
            yield receiver
        finally:
            del self._by_upload[upload_id]
            receiver.ended.set()


_receivers = _Receivers()
