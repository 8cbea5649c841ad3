"""Receives an uploaded model: text fields, and its files, which are streamed into the object store."""

from __future__ import annotations

from collections.abc import AsyncIterator

from multipart import MultipartSegment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from app.conversion.upload_receiver import FileReceiver, new_upload
from app.kit.clock import now
from app.kit.errors import BadRequest, TooLarge
from app.kit.web.forms import multipart_pieces
from app.kit.web.http import checked
from app.kit.web.multipart import Piece
from app.model_registry.model import Model
from app.model_registry.schemas import MAX_LABELS_TEXT, ModelUpload
from app.model_registry.service import Models

FILE, WEIGHTS = "model", "weights"
HINT = "For example: curl -F name=faces -F decoder=yunet -F model=@faces.onnx http://…/api/v2/models"


async def receive_model(request: Request, models: Models, user: str) -> Model:
    """Stores the model only if all of it arrives. A name that comes before the file is checked before the file is
    read."""
    pieces = multipart_pieces(request, hint=HINT)
    async with new_upload(models.imports.uploads, user) as files:
        texts = await _receive(pieces, files, models, user)
        if not files.names:
            raise BadRequest("There is no file `model`.", hint=HINT)
        await files.end()
        imported = await run_in_threadpool(models.imports.check, files.upload_id, files.stored[FILE])
        body = checked(lambda: ModelUpload.model_validate(texts))
    return await run_in_threadpool(
        models.add_received,
        user,
        body.name,
        imported,
        now=now(),
        decoder=body.decoder,
        labels=body.listed_labels,
        preprocess=body.preprocess,
        versioning=body.versioning,
    )


async def _receive(pieces: AsyncIterator[Piece], files: FileReceiver, models: Models, user: str) -> dict[str, str]:
    """Stores the files, and returns the text fields."""
    texts: dict[str, bytearray] = {}
    field = ""
    async for piece in pieces:
        if isinstance(piece, MultipartSegment):
            field = piece.name
            if field in (FILE, WEIGHTS):
                if field == FILE and "name" in texts and "new_version" not in texts:
                    await run_in_threadpool(models.check_new, user, _decode_text(texts["name"]))
                await files.begin(piece)
            elif field in texts or piece.filename:
                raise BadRequest(f"The field {field!r} must be a text and come once.", hint=HINT)
            else:
                texts[field] = bytearray()
        elif field in texts:
            texts[field] += piece
            if len(texts[field]) > 4 * MAX_LABELS_TEXT:
                raise TooLarge(f"The field {field!r} is too large.")
        else:
            await files.put(piece)
    return {name: _decode_text(content) for name, content in texts.items()}


def _decode_text(content: bytearray) -> str:
    return content.decode("utf-8", "replace")
