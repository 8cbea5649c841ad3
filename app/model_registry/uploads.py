"""Streams a model that its user uploads into the object store: text fields, and the file `model` in constant memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from multipart import MultipartSegment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from app.kit.clock import now
from app.kit.errors import BadRequest, TooLarge
from app.kit.web.http import checked
from app.kit.web.multipart import Part, multipart_parts
from app.kit.web.thread_stream import hand_over
from app.model_registry.imports import ImportedModel
from app.model_registry.model import Model
from app.model_registry.schemas import MAX_LABELS_TEXT, ModelUpload
from app.model_registry.service import Models

FILE = "model"
HINT = "For example: curl -F name=faces -F decoder=yunet -F model=@faces.onnx http://…/api/v2/models"


async def receive_model(request: Request, models: Models, user: str) -> Model:
    """Nothing is kept unless all of it arrived. A name that came before the file is checked before the file is read."""
    receiver = _Receiver(multipart_parts(request, hint=HINT), models, user)
    try:
        await receiver.run()
        body = checked(lambda: ModelUpload.model_validate(receiver.fields))
    except BaseException:
        if receiver.imported is not None:
            await asyncio.shield(run_in_threadpool(models.discard, receiver.imported))
        raise
    imported = receiver.imported
    if imported is None:
        raise BadRequest("There is no file `model`.", hint=HINT)
    return await run_in_threadpool(
        models.add_received,
        user,
        body.name,
        imported,
        now=now(),
        decoder=body.decoder,
        labels=body.listed_labels,
        preprocess=body.preprocess,
    )


class _Receiver:
    def __init__(self, parts: AsyncIterator[Part], models: Models, user: str) -> None:
        self.parts = parts
        self.models = models
        self.user = user
        self.fields: dict[str, str] = {}
        self.imported: ImportedModel | None = None
        self.ahead: MultipartSegment | None = None
        """The part that begins after the one being read."""

    async def run(self) -> None:
        async for _ in self._content():  # before the first part there is nothing
            pass
        while self.ahead is not None:
            part, self.ahead = self.ahead, None
            if part.name == FILE:
                await self._take_file(part)
            else:
                await self._take_text(part)

    async def _take_file(self, part: MultipartSegment) -> None:
        if self.imported is not None or not part.filename:
            raise BadRequest("The field `model` must be a file and come once.", hint=HINT)
        if "name" in self.fields:
            await run_in_threadpool(self.models.check_new, self.user, self.fields["name"])
        self.imported = await hand_over(self._content(), lambda chunks: self.models.receive(self.user, chunks))

    async def _take_text(self, part: MultipartSegment) -> None:
        if part.name in self.fields or part.filename:
            raise BadRequest(f"The field {part.name!r} must be a text and come once.", hint=HINT)
        text = bytearray()
        async for chunk in self._content():
            text += chunk
            if len(text) > 4 * MAX_LABELS_TEXT:
                raise TooLarge(f"The field {part.name!r} is too large.")
        self.fields[part.name] = text.decode("utf-8", "replace")

    async def _content(self) -> AsyncIterator[bytes]:
        """The content of the part that has begun, up to the next part."""
        async for part in self.parts:
            if isinstance(part, MultipartSegment):
                self.ahead = part
                return
            yield part
