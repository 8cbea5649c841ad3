"""Takes in an ONNX that its user uploads: by the limits of every upload, looked at in a sandbox before it is kept."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.conversion import object_keys
from app.conversion.service import Conversion
from app.kit.errors import BadInput
from app.kit.objects import ObjectStore, Stored
from app.kit.sandbox.errors import StageCrashed, StageOutOfMemory, StageTimedOut
from app.kit.sandbox.runner import Limits

CHECK = "app.model_registry.intake:check_brought"


@dataclass(frozen=True)
class ImportedModel:
    upload_id: str
    stored: Stored
    """Among the uploads, until it is added or discarded."""
    facts: dict[str, Any]
    """See graph.facts."""


class ModelImports:
    def __init__(self, objects: ObjectStore, conversion: Conversion) -> None:
        self.objects = objects
        self.uploads = conversion.uploads
        self.sandbox = conversion.previews.sandbox

    def receive(self, user: str, chunks: Iterable[bytes]) -> ImportedModel:
        """Raises ModelTooLarge, and BadInput for anything but an ONNX that can be run; nothing is stored then."""
        upload_id = self.uploads.begin(user)
        try:
            stored = self.uploads.store_model(upload_id, chunks)
            stored = self.uploads.merge(upload_id) or stored
            return ImportedModel(upload_id, stored, self._facts(stored))
        except BaseException:
            self.uploads.discard(upload_id)
            raise

    def discard(self, imported: ImportedModel) -> None:
        self.uploads.discard(imported.upload_id)

    def _facts(self, stored: Stored) -> dict[str, Any]:
        settings = self.uploads.settings
        settings.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix="model-", dir=settings.work))
        try:
            self.objects.get_file(stored.key, folder / object_keys.MODEL)
            request = {"model": str(folder / object_keys.MODEL), "max_bytes": settings.max_model_bytes}
            limits = Limits(settings.intake_memory_bytes, settings.intake_time_s, 1)
            return self.sandbox.run(CHECK, request, work_dir=folder, limits=limits).result
        except (StageCrashed, StageOutOfMemory, StageTimedOut) as error:
            raise BadInput(
                f"The model could not be checked: {error.message}.",
                hint="Check it with onnx.checker.check_model.",
                detail={"cause": error.code},
            ) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
