"""Streams a multipart upload into the object store in constant memory: the loop parses, a thread stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from multipart import MultipartSegment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from app.conversion.errors import NoSamples
from app.conversion.schemas import StoredFile, UploadAnswer
from app.conversion.service.uploads import FileStart, Uploads
from app.kit.errors import BadRequest
from app.kit.objects import Stored
from app.kit.web.forms import multipart_pieces
from app.kit.web.multipart import plain_name
from app.kit.web.thread_stream import Abandoned, ThreadStream, receive_in_thread


async def receive_upload(request: Request, uploads: Uploads, owner: str) -> UploadAnswer:
    """Store the parts `model`, `weights` and `images` of a multipart body. Nothing is kept unless all of it arrived."""
    pieces = multipart_pieces(
        request, hint="For example: curl -F model=@model.onnx -F images=@images.zip http://…/uploads"
    )
    async with new_upload(uploads, owner) as receiver:
        async for piece in pieces:
            if isinstance(piece, MultipartSegment):
                await receiver.begin(piece)
            else:
                await receiver.put(piece)
        await receiver.end()
        receiver.merged(await run_in_threadpool(uploads.merge, receiver.upload_id))
        return receiver.answer()


@asynccontextmanager
async def new_upload(uploads: Uploads, owner: str) -> AsyncIterator[FileReceiver]:
    """Begin an upload. Nothing of it is kept when the block ends with an error."""
    upload_id = await run_in_threadpool(uploads.begin, owner)
    receiver = FileReceiver(uploads, upload_id)
    try:
        yield receiver
    except BaseException as error:
        await receiver.abandon(error)
        await asyncio.shield(run_in_threadpool(uploads.discard, upload_id))
        raise


FIELDS = ("model", "weights", "images")
SEVERAL = ("weights", "images")
"""Fields that may come with many files, in a row."""


class FileReceiver:
    """Stores the files of one upload, each in a thread while the event loop receives it: begin, put …, end."""

    def __init__(self, uploads: Uploads, upload_id: str) -> None:
        self.uploads = uploads
        self.upload_id = upload_id
        self.names: dict[str, str] = {}
        self.field = ""
        self.handover: ThreadStream[Any] | None = None
        self.storing: asyncio.Task[Stored] | None = None
        self.stored: dict[str, Stored] = {}

    async def put(self, data: bytes) -> None:
        """Take bytes of the file that has started; before the first they are dropped."""
        if self.handover is not None:
            await self.handover.put(data, len(data))
        if self.storing is not None and self.storing.done():
            self.storing.result()  # it failed: say so now and not after the last byte

    async def end(self) -> None:
        """Wait until all is stored.

        Raises:
            NoSamples: There was no file.
            BadRequest: There were weights without their model.
        """
        await self._finish()
        if not self.stored:
            raise NoSamples("The upload holds no file.", hint="Send `model`, `images` or both.")
        if "weights" in self.stored and "model" not in self.stored:
            raise BadRequest("These are weights without their model.", hint="Send the .onnx file too, as `model`.")

    async def begin(self, part: MultipartSegment) -> None:
        """Take a file: one of FIELDS.

        Raises:
            BadRequest: It is none of them or a repeated one; or an error from storing the file before it.
        """
        field, name = part.name, plain_name(part.filename)
        if field == self.field and field in SEVERAL:
            await cast("ThreadStream[Any]", self.handover).put(FileStart(name), 1)
            return
        await self._finish()
        if field not in FIELDS:
            raise BadRequest(f"There is no field {field!r} here.", hint="Send `model`, `weights` and `images`.")
        if field in self.names or not part.filename:
            raise BadRequest(
                f"The field {field!r} must be a file and come once.",
                hint="Send all pictures in a row; the files beside a model are `weights`.",
            )
        self.field, self.names[field] = field, name
        self.handover = ThreadStream()
        if field in SEVERAL:
            await self.handover.put(FileStart(name), 1)
        self.storing = asyncio.create_task(receive_in_thread(self._store, field, self.handover))

    def _store(self, field: str, handover: ThreadStream[Any]) -> Stored:
        uploads = self.uploads
        stores = {"model": uploads.store_model, "weights": uploads.store_weights, "images": uploads.store_pictures}
        store = cast("Callable[[str, Iterator[Any]], Stored]", stores[field])
        try:
            stored = store(self.upload_id, iter(handover))
            if field == "model":
                uploads.note_model_name(self.upload_id, self.names[field])
            return stored
        finally:
            handover.close()

    async def _finish(self) -> None:
        if self.handover is None or self.storing is None:
            return
        await self.handover.end()
        self.stored[self.field] = await self.storing
        self.handover = self.storing = None
        self.field = ""

    async def abandon(self, error: BaseException) -> None:
        """Have the thread end without keeping what it stores."""
        if self.handover is not None and self.storing is not None:
            await self.handover.end(Abandoned(str(error)))
            with suppress(Exception):  # the first error is the one to tell
                await self.storing

    def merged(self, model: Stored | None) -> None:
        """The model has become this one file; the weights are part of it."""
        if model is not None:
            self.stored["model"] = model
            self.stored.pop("weights", None)

    def answer(self) -> UploadAnswer:
        files = [
            StoredFile(field=field, name=self.names[field], **vars(stored)) for field, stored in self.stored.items()
        ]
        keys = {field: stored.key for field, stored in self.stored.items()}
        return UploadAnswer(
            upload_id=self.upload_id, model_key=keys.get("model"), quant_key=keys.get("images"), files=files
        )
