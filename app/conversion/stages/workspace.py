"""The work folder of one stage: {work_dir}/{job_id}/ with the input, `ref_images/` and the output, as required.

Everything comes from the object store and goes back to it, so workers share nothing but the store.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from app.conversion import keys
from app.conversion.errors import StageFailed
from app.conversion.model import Artifact, JobRecord, Stage
from app.conversion.toolchains.base import OUTPUTS, SCRATCH
from app.kit.objects import ObjectStore, Stored

IMAGES_IN_SCRATCH = "quant"


class Workspace:
    def __init__(self, base: Path, record: JobRecord, objects: ObjectStore) -> None:
        self.folder = base / record.job_id
        self.record = record
        self.stage = record.stage
        self.objects = objects
        self.log = self.folder / f".{record.stage.step}.log"

    def __enter__(self) -> Workspace:
        self._remove()
        self.folder.mkdir(parents=True, mode=0o700)
        (self.folder / SCRATCH).mkdir(mode=0o700)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def images(self) -> Path | None:
        """The packed reference images, for the stages that use them."""
        return None if self.stage is Stage.NEF else self.folder / SCRATCH / IMAGES_IN_SCRATCH

    def fetch_inputs(self) -> None:
        job_id = self.record.job_id
        if self.stage is Stage.ONNX:
            self.objects.get_file(keys.input_(job_id, keys.MODEL), self.folder / keys.MODEL)
        else:
            before = Stage.ONNX if self.stage is Stage.BIE else Stage.BIE
            self.objects.get_file(keys.result(job_id, before), self.folder / OUTPUTS[before])
        if self.images is not None:
            self.objects.get_file(keys.input_(job_id, keys.IMAGES), self.images)
        for name, artifact in self.record.artifacts.items():
            if name.startswith(f"{self._before()}.meta."):
                self.objects.get_file(artifact.key, self.folder / f"out.{name}")

    def store_outputs(self, result: dict[str, Any], *, max_bytes: int) -> dict[str, Artifact]:
        """Upload the output, the report and extra files. Raises StageFailed for a missing or too large output."""
        output = Path(result["output"])
        if not output.is_file() or output.stat().st_size == 0:
            raise StageFailed(f"the toolchain reported success, but {output.name} is missing or empty")
        if output.stat().st_size > max_bytes:
            raise StageFailed(f"{output.name} is larger than the {max_bytes} bytes that an artifact may have")
        job_id, step = self.record.job_id, self.stage.step
        report = json.dumps(result["report"], allow_nan=False).encode()
        stored = {
            OUTPUTS[self.stage]: self.objects.put_file(keys.result(job_id, self.stage), output),
            f"{step}.json": self.objects.put(
                keys.report(job_id, self.stage), [report], content_type="application/json"
            ),
        }
        for name, path in result["extra_files"].items():
            stored[name] = self.objects.put_file(keys.extra_file(job_id, name), Path(path))
        return {name: _artifact(found) for name, found in stored.items()}

    def store_log(self) -> dict[str, Artifact]:
        if not self.log.exists():
            return {}
        key = keys.log(self.record.job_id, self.stage)
        stored = self.objects.put_file(key, self.log, content_type="text/plain; charset=utf-8")
        return {f"{self.stage.step}.log": _artifact(stored)}

    def _before(self) -> str:
        return {Stage.ONNX: "-", Stage.BIE: "onnx", Stage.NEF: "bie"}[self.stage]

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _artifact(stored: Stored) -> Artifact:
    return Artifact(key=stored.key, size_bytes=stored.size_bytes, sha256=stored.sha256)
