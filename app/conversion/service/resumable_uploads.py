"""Resumable uploads: one file each, in parts, until it is complete; then it is an upload like any other.

Their state follows from the store alone, so any web process can continue one, also after a reset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.conversion import object_keys
from app.conversion.errors import ModelTooLarge, SamplesTooLarge
from app.conversion.service.uploads import Uploads
from app.kit.clock import now
from app.kit.errors import BadRequest, Conflict, ModelmillError, NotFound
from app.kit.objects import ObjectMissing
from app.kit.objects.content import read_json
from app.kit.objects.parts import Parts
from app.kit.text.json_values import JsonObject
from app.kit.web.body_limits import TooManyUploads
from app.kit.web.multipart import plain_name
from app.kit.web.tus import Checksum, WrongOffset

FILES: Mapping[str, str] = {"model": object_keys.MODEL, "images": object_keys.IMAGES}
"""What may be uploaded: field → name of the input that it becomes."""
RETRY_AFTER_S = 60


@dataclass(frozen=True)
class ResumableUpload:
    """One of them, as it stands."""

    upload_id: str
    field: str
    name: str
    length: int
    offset: int
    expires_at: datetime
    """Unless it goes on."""
    key: str = ""
    """Of the input, once all of it is there."""


class ResumableUploads:
    def __init__(self, uploads: Uploads) -> None:
        self.uploads = uploads
        self.objects = uploads.objects
        self.settings = uploads.settings

    def begin(self, owner: str, field: str, name: str, length: int) -> ResumableUpload:
        """Begin an upload.

        Args:
            field: model or images.
            name: of the file; reduced to a plain one.
            length: size in bytes, known beforehand.

        Raises:
            BadRequest: No such field, or no bytes.
            ModelTooLarge, SamplesTooLarge: More than is accepted here.
            TooManyUploads: So many of this user's are unfinished.
        """
        self._check(field, length)
        most = self.settings.uploads_unfinished_per_user
        if sum(1 for _ in self.objects.list(object_keys.uploading(owner, ""))) >= most:
            raise TooManyUploads(
                f"{most} uploads of yours are unfinished.",
                hint="Continue or cancel one of them; after a day they are deleted.",
                detail={"retry_after_s": RETRY_AFTER_S},
            )
        upload_id = self.uploads.begin(owner)
        self.uploads.note_model_name(upload_id, plain_name(name) if field == "model" else "")
        about = {"field": field, "name": plain_name(name), "length": length}
        self.objects.put(_build_about_key(upload_id), [json.dumps(about).encode()])
        self.objects.put(object_keys.uploading(owner, upload_id), [])
        return ResumableUpload(upload_id, field, plain_name(name), length, 0, self._compute_expiry())

    def check(self, upload_id: str, owner: str) -> None:
        """Checks that it is an upload of this user.

        Raises:
            NotFound: It is not.
        """
        self._read_about(upload_id, owner)

    def get(self, upload_id: str, owner: str) -> ResumableUpload:
        """How it stands; what is whole and was not assembled yet, is.

        Raises:
            NotFound: This user has no such upload; or what `append` raises.
        """
        about = self._read_about(upload_id, owner)
        key = object_keys.upload(upload_id, FILES[about["field"]])
        try:
            self.objects.info(key)
            return self._state(upload_id, about, about["length"], key)
        except ObjectMissing:
            offset = self._open_parts(upload_id).chain().size_bytes
        return self._settle(self._state(upload_id, about, offset), owner)

    def append(
        self, upload: ResumableUpload, offset: int, chunks: Iterator[bytes], checksum: Checksum | None = None
    ) -> int:
        """Store what comes and return where it ends, in bytes; what came before an error is kept.

        Args:
            upload: As it stands now.
            offset: Where the sender says that the chunks begin.
            checksum: Of all chunks; should they differ, or break off, none is kept.

        Raises:
            WrongOffset: It stands elsewhere.
            BadRequest: More bytes than were announced.
            WrongChecksum: The bytes are not those that were sent.
        """
        if offset != upload.offset or upload.key:
            raise WrongOffset(
                f"{upload.offset} bytes of this upload are here, and the next part was said to begin at {offset}.",
                hint="Ask with HEAD how much has arrived, and continue from there.",
                detail={"offset": upload.offset},
            )
        parts = self._open_parts(upload.upload_id)
        hashed = checksum.new() if checksum else None
        try:
            end = parts.append(offset, _meter(chunks, upload.length - offset, hashed))
            if checksum:
                checksum.check(hashed)
        except BaseException:
            if checksum:
                parts.drop(offset)
            raise
        return end

    def discard(self, upload_id: str, owner: str) -> None:
        """Delete it with what came of it.

        Raises:
            NotFound: This user has no such upload.
        """
        self.check(upload_id, owner)
        self._discard(upload_id, owner)

    def _settle(self, upload: ResumableUpload, owner: str) -> ResumableUpload:
        """A whole one as the input that it is. What cannot be used is deleted, and the reason raised."""
        if upload.offset != upload.length:
            return upload
        key = object_keys.upload(upload.upload_id, FILES[upload.field])
        if self._open_parts(upload.upload_id).join(key, upload.length) is None:
            raise Conflict("The upload changed while it was put together.", hint="Ask with HEAD how much has arrived.")
        self.objects.delete(object_keys.uploading(owner, upload.upload_id))
        try:
            if upload.field == "model":
                self.uploads.merge(upload.upload_id)
        except ModelmillError as error:
            if error.status < 500:
                self._discard(upload.upload_id, owner)
            raise
        return ResumableUpload(**{**vars(upload), "key": key})

    def _check(self, field: str, length: int) -> None:
        if field not in FILES:
            raise BadRequest(
                f"{field!r} is not what can be uploaded here.",
                hint="Say `model` or `images` as `field` in the metadata.",
            )
        if length <= 0:
            raise BadRequest("The file is empty.", hint="Choose the file again; was it written to its end?")
        limit, error = (
            (self.settings.max_model_bytes, ModelTooLarge)
            if field == "model"
            else (self.settings.max_images_bytes, SamplesTooLarge)
        )
        if length > limit:
            raise error(
                f"The file has {length} bytes; {limit} are accepted here.",
                hint="Send a smaller one; the operator can raise the limit.",
            )

    def _read_about(self, upload_id: str, owner: str) -> JsonObject:
        try:
            if not object_keys.is_uuid4(upload_id) or self.uploads.owner(upload_id) != owner:
                raise ObjectMissing("not this user's")
            about: JsonObject = read_json(self.objects, _build_about_key(upload_id))
            return about
        except ObjectMissing:
            raise NotFound(
                "There is no such upload.", hint="Begin it anew; unfinished ones are kept for a day."
            ) from None

    def _state(self, upload_id: str, about: Mapping[str, Any], offset: int, key: str = "") -> ResumableUpload:
        return ResumableUpload(upload_id, **about, offset=offset, expires_at=self._compute_expiry(), key=key)

    def _compute_expiry(self) -> datetime:
        return now() + timedelta(seconds=self.settings.upload_ttl_s)

    def _open_parts(self, upload_id: str) -> Parts:
        return Parts(self.objects, object_keys.upload(upload_id, "parts/"))

    def _discard(self, upload_id: str, owner: str) -> None:
        self.objects.delete(object_keys.uploading(owner, upload_id))
        self.uploads.discard(upload_id)


def _build_about_key(upload_id: str) -> str:
    return object_keys.upload(upload_id, "resumable.json")


def _meter(chunks: Iterator[bytes], most_bytes: int, hashed: Any) -> Iterator[bytes]:
    left = most_bytes
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise BadRequest("More bytes came than the upload has.", hint="Begin it anew with its right length.")
        if hashed is not None:
            hashed.update(chunk)
        yield chunk
