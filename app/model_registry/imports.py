"""Imports an uploaded ONNX: with the limits of every upload, and checked in a sandbox before it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.conversion import object_keys
from app.conversion.intake.entry_points import CheckModelRequest, DecoderRequest, EntryPoint
from app.conversion.service import Conversion
from app.conversion.service.intake_sandbox import aborts_refused
from app.conversion.service.uploads import FileParts
from app.conversion.toolchains.facts import GraphFacts
from app.kit.objects import ObjectStore, Stored

CHECK = EntryPoint[CheckModelRequest, GraphFacts]("app.model_registry.intake:check_brought")
SET_DECODER = EntryPoint[DecoderRequest, GraphFacts]("app.model_registry.intake:set_decoder")
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class ImportedModel:
    upload_id: str
    stored: Stored
    """Among the uploads, until it is added or discarded."""
    facts: GraphFacts


class ModelImports:
    def __init__(self, objects: ObjectStore, conversion: Conversion) -> None:
        self.objects = objects
        self.uploads = conversion.uploads

    def receive(self, user: str, chunks: Iterable[bytes], weights: FileParts | None = None) -> ImportedModel:
        """Store a model and look at it.

        Args:
            user: Whose it is.
            chunks: Of an ONNX, or of a zip of one and the files its weights lie in.
            weights: The files beside the ONNX that its weights lie in.

        Raises:
            ModelTooLarge, BadInput: For anything but an ONNX that can be run; nothing is stored then.
        """
        with self.uploads.new(user) as upload_id:
            stored = self.uploads.store_model(upload_id, chunks)
            if weights is not None:
                self.uploads.store_weights(upload_id, weights)
            return self.check(upload_id, stored)

    def check(self, upload_id: str, stored: Stored) -> ImportedModel:
        """Make the model of an upload one file and look at it. Raises as receive does; the upload stays."""
        stored = self.uploads.merge(upload_id) or stored
        return ImportedModel(upload_id, stored, self._collect_facts(stored))

    def copy_with_decoder(self, user: str, key: str, decoder: str) -> ImportedModel:
        """Store a copy of a model with a decoder in its file.

        Args:
            user: Whose it is.
            key: Of the ONNX in the object store.
            decoder: Python text.

        Raises:
            BadRequest: The text is not valid Python, has no function decode, or is too long.
            ModelTooLarge, BadInput: As receive.
        """
        intake = self.uploads.intake
        with self.uploads.new(user) as upload_id, intake.folder("model-") as folder:
            path, text = folder / object_keys.MODEL, folder / "decoder.py"
            self.objects.get_file(key, path)
            text.write_text(decoder, encoding="utf-8")
            limit = self.uploads.settings.max_model_bytes
            request: DecoderRequest = {"model": str(path), "decoder": str(text), "max_bytes": limit}
            with aborts_refused("The decoder could not be written into the model", hint="Try a smaller file."):
                facts = intake.run(SET_DECODER, request, folder)
            return ImportedModel(upload_id, self.uploads.store_model(upload_id, _read_chunks(path)), facts)

    def discard(self, imported: ImportedModel) -> None:
        self.uploads.discard(imported.upload_id)

    def _collect_facts(self, stored: Stored) -> GraphFacts:
        intake, hint = self.uploads.intake, "Check it with onnx.checker.check_model."
        with aborts_refused("The model could not be checked", hint=hint), intake.folder("model-") as folder:
            path = folder / object_keys.MODEL
            self.objects.get_file(stored.key, path)
            request: CheckModelRequest = {"model": str(path), "max_bytes": self.uploads.settings.max_model_bytes}
            return intake.run(CHECK, request, folder)


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
