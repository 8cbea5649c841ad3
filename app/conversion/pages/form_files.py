"""Brings the files of a form into the store, as POST /uploads does with those of the script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.conversion import object_keys
from app.conversion.service.uploads import File, Uploads
from app.kit.web.multipart_form import SentFile


def stored(uploads: Uploads, user: str, part: str, files: Sequence[SentFile]) -> tuple[str, str]:
    """Key and name of what was sent as "model" or as "images". Raises what Uploads raises; nothing is kept then."""
    upload_id = uploads.begin(user)
    try:
        if part == "model":
            return _model(uploads, upload_id, files)
        return uploads.store_images(upload_id, _in_a_row(files)).key, files[0].name if len(files) == 1 else ""
    except BaseException:
        uploads.discard(upload_id)
        raise


def _model(uploads: Uploads, upload_id: str, files: Sequence[SentFile]) -> tuple[str, str]:
    """files: the model, and those that its weights lie in; or a zip of them."""
    model = next((file for file in files if file.name.lower().endswith(object_keys.MODEL_ENDING)), files[0])
    key = uploads.store_model(upload_id, model.chunks()).key
    beside = [file for file in files if file is not model]
    if beside:
        uploads.store_weights(upload_id, _in_a_row(beside))
    uploads.merge(upload_id)
    return key, model.name


def _in_a_row(files: Sequence[SentFile]) -> Iterator[File | bytes]:
    for file in files:
        yield File(file.name)
        yield from file.chunks()
