"""Stores a user's files in the object store: through this service, or directly with presigned links.

A model in several files is merged into one, in a sandbox, before it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from app.conversion import object_keys
from app.conversion.errors import ModelTooLarge, NoSamples, SamplesTooLarge
from app.conversion.intake.entry_points import (
    MERGE,
    PLACES,
    Converter,
    EntryPoint,
    MergeRequest,
    ModelRequest,
    Request,
    Result,
)
from app.conversion.service.intake_sandbox import IntakeSandbox, aborts_refused
from app.kit.clock import now, to_text
from app.kit.errors import BadRequest, TooLarge
from app.kit.objects import ObjectMissing, ObjectStore, Stored
from app.kit.objects.content import put_json, read_json
from app.kit.sandbox.runner import Sandbox
from app.kit.text.json_values import JsonObject
from app.kit.web.forms import SentFile
from app.kit.web.zip_stream import zip_stream
from app.settings import Settings

WEIGHTS = "weights.zip"
ZIP_MARK = b"PK\x03\x04"
TFLITE_MARK, BEGINNING = b"TFL3", 8
"""A TFLite model has it at the end of its first bytes; other formats are zips."""


@dataclass(frozen=True)
class FileStart:
    """The start of a file in a stream of parts; its bytes follow."""

    name: str


FileParts = Iterable[FileStart | bytes]


@dataclass(frozen=True)
class UploadRecord:
    """What is stored about an upload."""

    owner: str
    origin: str
    """The URI that its model was fetched from; empty if its owner sent it."""
    model_name: str
    """Of the model's file; empty if it is not known."""


def split_model(files: Sequence[SentFile]) -> tuple[SentFile, Sequence[SentFile]]:
    """From the files of one model, the one with a MODEL_ENDING, or the zip; and its external weights."""
    model = next((file for file in files if file.name.lower().endswith(object_keys.MODEL_ENDINGS)), files[0])
    return model, [file for file in files if file is not model]


def parts_of(files: Iterable[SentFile]) -> Iterator[FileStart | bytes]:
    """The files in a row, as they would stream by."""
    for file in files:
        yield FileStart(file.name)
        yield from file.chunks()


class Uploads:
    """
    Args:
        converter: creates an ONNX from a model of another format, in the sandbox; None: none.
    """

    def __init__(
        self, settings: Settings, objects: ObjectStore, sandbox: Sandbox, *, converter: Converter | None = None
    ) -> None:
        self.settings = settings
        self._converter = converter
        self.objects = objects
        self.intake = IntakeSandbox(settings, sandbox)

    def begin(self, owner: str, *, origin: str = "") -> str:
        """Begins an upload and returns its id.

        Args:
            origin: The URI that the model is fetched from; empty if its owner sends it.
        """
        upload_id = str(uuid4())
        about = {"owner": owner, "created_at": to_text(now()), "origin": origin}
        self.objects.put(object_keys.upload(upload_id, "upload.json"), [json.dumps(about).encode()])
        return upload_id

    @contextmanager
    def new(self, owner: str, *, origin: str = "") -> Iterator[str]:
        """Like `begin`, as a context. Nothing of the upload is kept when the block ends with an error."""
        upload_id = self.begin(owner, origin=origin)
        try:
            yield upload_id
        except BaseException:
            self.discard(upload_id)
            raise

    def owner(self, upload_id: str) -> str:
        return self.record(upload_id).owner

    def record(self, upload_id: str) -> UploadRecord:
        """Returns what is stored about an upload.

        Raises:
            ObjectMissing: There is no such upload.
        """
        about = read_json(self.objects, object_keys.upload(upload_id, "upload.json"))
        # Older uploads do not have the others.
        return UploadRecord(str(about["owner"]), str(about.get("origin", "")), str(about.get("model_name", "")))

    def discard(self, upload_id: str) -> None:
        self.objects.delete_prefix(object_keys.upload(upload_id, ""))

    def store_model(self, upload_id: str, chunks: Iterable[bytes], name: str = "") -> Stored:
        """name: of its file."""
        stored = self._store_of_model(object_keys.upload(upload_id, object_keys.MODEL), chunks)
        self.note_model_name(upload_id, name)
        return stored

    def note_model_name(self, upload_id: str, name: str) -> None:
        """By the name of its file jobs of the model are searched."""
        if name:
            key = object_keys.upload(upload_id, "upload.json")
            put_json(self.objects, key, {**read_json(self.objects, key), "model_name": name[:200]})

    def store_weights(self, upload_id: str, parts: FileParts) -> Stored:
        """The files beside a model, for `merge`."""
        incoming = iter(parts)
        first = next(incoming)
        assert isinstance(first, FileStart)
        return self._store_of_model(
            object_keys.upload(upload_id, WEIGHTS), zip_stream(_iterate_members(first, incoming))
        )

    def places(self, upload_id: str) -> list[str]:
        """The locations of the stored model's external weights, relative to it; empty if they are inside. Raises
        BadInput."""
        with self.intake.folder("model-") as folder:
            self.objects.get_file(object_keys.upload(upload_id, object_keys.MODEL), folder / object_keys.MODEL)
            request: ModelRequest = {"model": str(folder / object_keys.MODEL)}
            return self._run(PLACES, request, folder)["places"]

    def merge(self, upload_id: str) -> Stored | None:
        """Creates one ONNX from a model in a zip, with external weights or in another format; None if it is one
        already.

        Raises:
            BadInput: A zip must not be unpacked, weights are missing or do not fit, or the format cannot be converted.
        """
        model, weights = object_keys.upload(upload_id, object_keys.MODEL), object_keys.upload(upload_id, WEIGHTS)
        try:
            beginning = b"".join(self.objects.read(model, end=BEGINNING))
        except ObjectMissing:
            return None
        is_zip, is_foreign = beginning.startswith(ZIP_MARK), beginning.endswith(TFLITE_MARK)
        has_weights = any(True for _ in self.objects.list(weights))
        if not (is_zip or is_foreign or has_weights):
            return None
        with self.intake.folder("model-") as folder:
            self.objects.get_file(model, folder / object_keys.MODEL)
            request: MergeRequest = {
                "model": str(folder / object_keys.MODEL),
                "weights": "",
                "unpack_to": str(folder / "unpacked"),
                "into": str(folder / "merged.onnx"),
                "max_bytes": self.settings.max_model_bytes,
            }
            if (is_zip or is_foreign) and self._is_converted(request, folder):
                return self.objects.put_file(model, folder / "merged.onnx")
            if has_weights:
                self.objects.get_file(weights, folder / WEIGHTS)
                request["weights"] = str(folder / WEIGHTS)
            if not self._run(MERGE, request, folder)["is_merged"]:
                return None
            stored = self.objects.put_file(model, folder / "merged.onnx")
        self.objects.delete(weights)
        return stored

    def _is_converted(self, request: MergeRequest, folder: Path) -> bool:
        if self._converter is None:
            return False
        with aborts_refused("The model could not be converted", hint="Export it to ONNX where it was made."):
            return bool(self.intake.run(self._converter, request, folder)["is_converted"])

    def _run(self, target: EntryPoint[Request, Result], request: Request, folder: Path) -> Result:
        hint = "Merge it yourself: onnx.save_model(onnx.load('model.onnx'), 'merged.onnx')."
        with aborts_refused("The model could not be put together", hint=hint):
            return self.intake.run(target, request, folder)

    def _store_of_model(self, key: str, chunks: Iterable[bytes]) -> Stored:
        limit = self.settings.max_model_bytes
        try:
            return self.objects.put(key, chunks, max_bytes=limit)
        except TooLarge as error:
            raise ModelTooLarge(
                f"The model is larger than the {limit} bytes that are accepted here.",
                hint="Simplify it or store its weights as float16; the operator can raise MODELMILL_MAX_MODEL_BYTES.",
            ) from error

    def store_pictures(self, upload_id: str, parts: FileParts) -> Stored:
        """One zip as it is, or many files packed into one while they stream by."""
        limit = self.settings.max_images_bytes
        try:
            return self.objects.put(object_keys.upload(upload_id, object_keys.IMAGES), _as_zip(parts), max_bytes=limit)
        except TooLarge as error:
            raise SamplesTooLarge(
                f"The reference pictures are larger than the {limit} bytes that are accepted here.",
                hint="A hundred typical pictures are enough to calibrate; send fewer or smaller ones.",
            ) from error

    def presign(self, owner: str, names: Iterable[str]) -> JsonObject:
        """Creates links for a PUT of the named inputs.

        Args:
            names: Some of object_keys.MODEL and object_keys.IMAGES.
        """
        upload_id = self.begin(owner)
        ttl_s = self.settings.presign_ttl_s
        links = {
            name: {
                "key": object_keys.upload(upload_id, name),
                "url": self.objects.presign_put(object_keys.upload(upload_id, name), expires_s=ttl_s),
                "method": "PUT",
            }
            for name in names
        }
        return {"upload_id": upload_id, "expires_at": to_text(now() + timedelta(seconds=ttl_s)), "links": links}


def _as_zip(parts: FileParts) -> Iterator[bytes]:
    incoming = iter(parts)
    first = next(incoming, None)
    if not isinstance(first, FileStart):
        raise NoSamples("There are no reference pictures.", hint="Send one zip, or pictures, .npy or .npz files.")
    if not first.name.lower().endswith(".zip"):
        yield from zip_stream(_iterate_members(first, incoming))
        return
    for part in incoming:
        if isinstance(part, FileStart):
            raise BadRequest("Send one zip or many single files, not both.", hint="Put everything into one zip.")
        yield part


def _choose_free_name(name: str, taken: set[str]) -> str:
    """The name, numbered if it is taken: uploads from several folders repeat their names."""
    stem, dot, ending = name.rpartition(".")
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{stem or ending} ({number}){dot}{ending if dot else ''}"
    taken.add(free)
    return free


def _iterate_members(first: FileStart, parts: Iterator[FileStart | bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Name and bytes of each file; read the bytes of one before asking for the next."""
    part: FileStart | bytes | None = first
    taken: set[str] = set()

    def content() -> Iterator[bytes]:
        nonlocal part
        part = next(parts, None)
        while isinstance(part, bytes):
            yield part
            part = next(parts, None)

    while isinstance(part, FileStart):
        yield _choose_free_name(part.name, taken), content()
