"""Imports an uploaded ONNX: with the limits of every upload, and checked in a sandbox before it is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.conversion import object_keys
from app.conversion.intake.entry_points import CheckModelRequest, EntryPoint
from app.conversion.service import Conversion
from app.conversion.service.intake_sandbox import aborts_refused
from app.conversion.service.uploads import FileParts
from app.conversion.toolchains.facts import GraphFacts
from app.kit.objects import ObjectStore, Stored

CHECK = EntryPoint[CheckModelRequest, GraphFacts]("app.model_registry.intake:check_brought")


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

    def discard(self, imported: ImportedModel) -> None:
        self.uploads.discard(imported.upload_id)

    def _collect_facts(self, stored: Stored) -> GraphFacts:
        intake, hint = self.uploads.intake, "Check it with onnx.checker.check_model."
        with aborts_refused("The model could not be checked", hint=hint), intake.folder("model-") as folder:
            path = folder / object_keys.MODEL
            self.objects.get_file(stored.key, path)
            request: CheckModelRequest = {"model": str(path), "max_bytes": self.uploads.settings.max_model_bytes}
            return intake.run(CHECK, request, folder)
