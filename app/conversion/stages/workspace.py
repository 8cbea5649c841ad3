"""The work folder of one stage: {work_dir}/{job_id}/ with the input, `ref_images/` and the output, as required.

Everything is read from the object store and written back to it, so workers share nothing except the store.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from app.conversion import object_keys
from app.conversion.errors import WorkDiskFull
from app.conversion.model import Artifact, JobRecord, Stage
from app.conversion.toolchains.base import OUTPUTS, SCRATCH
from app.kit.errors import ModelmillError
from app.kit.files import NO_SPACE, make_private
from app.kit.objects import ObjectStore, Stored, StoreFull
from app.kit.sandbox.errors import StageCancelled, StageFailed, StageOutOfDisk, StageOutOfMemory, StageTimedOut
from app.kit.sandbox.leftovers import file_within, remove_tree
from app.kit.text.json_values import JsonObject

SAMPLES_IN_SCRATCH = "quant"
LEAST_FREE_BYTES = 1 << 20
OTHER_CAUSES = (StageCancelled, StageOutOfDisk, StageOutOfMemory, StageTimedOut)


class Workspace:
    def __init__(self, base: Path, record: JobRecord, objects: ObjectStore) -> None:
        self.folder = base / record.job_id
        self.record = record
        self.stage = record.stage
        self.objects = objects
        self.log = self.folder / f".{record.stage.step}.log"

    def __enter__(self) -> Workspace:
        self._remove()
        make_private(self.folder.parent)
        self.folder.mkdir(mode=0o700)
        (self.folder / SCRATCH).mkdir(mode=0o700)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def samples(self) -> Path | None:
        """The packed reference samples, for the stages that use them."""
        return None if self.stage is Stage.NEF else self.folder / SCRATCH / SAMPLES_IN_SCRATCH

    @property
    def model(self) -> Path:
        """The inputs of the stage, after they are fetched."""
        before = self.stage.before
        return self.folder / (OUTPUTS[before] if before else object_keys.MODEL)

    def fetch_inputs(self) -> None:
        """Fetches the inputs of the stage.

        Raises:
            WorkDiskFull: They do not fit.
        """
        try:
            self._fetch_inputs()
        except StoreFull as error:  # a download fills the work disk, not the store
            raise self._disk_full(error) from error

    def _fetch_inputs(self) -> None:
        job_id, before = self.record.job_id, self.stage.before
        key = object_keys.result(job_id, before) if before else object_keys.input_(job_id, object_keys.MODEL)
        self.objects.get_file(key, self.model)
        if self.samples is not None:
            self.objects.get_file(object_keys.input_(job_id, object_keys.IMAGES), self.samples)
        for name, artifact in self.record.artifacts.items():
            if before and name.startswith(f"{before.step}.meta."):
                self.objects.get_file(artifact.key, self.folder / f"out.{name}")

    def store_outputs(self, result: JsonObject, *, max_bytes: int) -> dict[str, Artifact]:
        """Uploads the output, the report and extra files; if the store fills up meanwhile, none of them stays.

        Raises:
            StageFailed: A file is missing, too large, or not the stage's own.
        """
        output = file_within(self.folder, result["output"])
        if not output.is_file() or output.stat().st_size == 0:
            raise StageFailed(
                f"the toolchain reported success, but {output.name} is missing or empty", hint="The log may tell why."
            )
        extra = {name: file_within(self.folder, path) for name, path in result["extra_files"].items()}
        for name in extra:
            if not name.startswith(f"{self.stage.step}."):
                raise StageFailed(f"{name} is no file of this stage", hint="The log may tell why.")
        for path in (output, *extra.values()):
            _require_size(path, max_bytes)
        try:
            return self._store(output, json.dumps(result["report"], allow_nan=False).encode(), extra)
        except StoreFull:
            job_id = self.record.job_id
            for key in (object_keys.result(job_id, self.stage), object_keys.report(job_id, self.stage)):
                self.objects.delete(key)
            for name in extra:
                self.objects.delete(object_keys.extra_file(job_id, name))
            raise

    def _store(self, output: Path, report: bytes, extra: dict[str, Path]) -> dict[str, Artifact]:
        job_id, step = self.record.job_id, self.stage.step
        stored = {
            OUTPUTS[self.stage]: self.objects.put_file(object_keys.result(job_id, self.stage), output),
            f"{step}.json": self.objects.put(
                object_keys.report(job_id, self.stage), [report], content_type="application/json"
            ),
        }
        for name, path in extra.items():
            stored[name] = self.objects.put_file(object_keys.extra_file(job_id, name), path)
        return {name: _make_artifact(upload) for name, upload in stored.items()}

    def store_extra(self, name: str, path: Path) -> dict[str, Artifact]:
        """Uploads one further file of the stage under this name."""
        return {name: _make_artifact(self.objects.put_file(object_keys.extra_file(self.record.job_id, name), path))}

    def store_log(self) -> dict[str, Artifact]:
        if not self.log.exists():
            return {}
        key = object_keys.log(self.record.job_id, self.stage)
        stored = self.objects.put_file(key, self.log, content_type="text/plain; charset=utf-8")
        return {f"{self.stage.step}.log": _make_artifact(stored)}

    def cause_of(self, error: BaseException) -> BaseException:
        """Returns the error, or WorkDiskFull if that is its cause, however (or whether) a toolchain reported that it
        could not write. Call it before the folder is removed."""
        if isinstance(error, OSError):
            return self._disk_full(error) if error.errno in NO_SPACE else error
        if not isinstance(error, StageFailed) or isinstance(error, (*OTHER_CAUSES, WorkDiskFull)):
            return error
        says_so = any(os.strerror(number) in error.message for number in NO_SPACE)
        return self._disk_full(error) if says_so or self._is_disk_full() else error

    def _is_disk_full(self) -> bool:
        return self.folder.exists() and shutil.disk_usage(self.folder).free < LEAST_FREE_BYTES

    def _disk_full(self, error: ModelmillError | OSError) -> WorkDiskFull:
        return WorkDiskFull(
            f"no space left on the work disk of worker {self.record.current.worker}",
            hint="Use fewer or smaller reference pictures, or ask the operator for more space under "
            "MODELMILL_WORK_DIR; then submit the job again.",
            detail={"cause": str(error)},
        )

    def _remove(self) -> None:
        remove_tree(self.folder)


def _require_size(path: Path, max_bytes: int) -> None:
    if path.stat().st_size > max_bytes:
        raise StageFailed(
            f"{path.name} is larger than the {max_bytes} bytes that an artifact may have",
            hint="Convert a smaller model; the operator can raise MODELMILL_MAX_ARTIFACT_BYTES.",
        )


def _make_artifact(stored: Stored) -> Artifact:
    return Artifact(key=stored.key, size_bytes=stored.size_bytes, sha256=stored.sha256)
