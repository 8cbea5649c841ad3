"""What a stage leaves in the object store, and what it says when it cannot."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from app.conversion import model, object_keys
from app.conversion.errors import WorkDiskFull
from app.conversion.model import JobRecord
from app.conversion.options import Options
from app.conversion.stages import runner, transfer_retry
from app.conversion.stages.workspace import Workspace
from app.kit.objects import StoreFull
from app.kit.objects.filesystem import FilesystemStore
from app.kit.objects.s3 import S3Store
from app.kit.sandbox.errors import StageCancelled, StageCrashed, StageFailed, StageTimedOut

NOW = "2026-11-20T00:00:00.000Z"
JOB_ID = "7f1f8a0e-6f0c-4b7e-9a55-0c2b3d4e5f60"


def record() -> JobRecord:
    return model.submitted(JOB_ID, now=NOW, owner="ann", name="", tags=(), options=Options(), inputs={}, intake={})


def result_of(space: Workspace, *, output: int, extra: int) -> dict[str, Any]:
    """An output and an extra file of so many bytes."""
    files = {"out.onnx": output, "onnx.meta.zip": extra}
    for name, size in files.items():
        (space.folder / name).write_bytes(bytes(size))
    extra_files = {"onnx.meta.zip": str(space.folder / "onnx.meta.zip")}
    return {"output": str(space.folder / "out.onnx"), "report": {}, "extra_files": extra_files}


@pytest.mark.parametrize(("output", "extra"), [(11, 1), (1, 11)], ids=["the output", "an extra file"])
def test_a_file_larger_than_an_artifact_may_be_is_refused_before_anything_is_stored(
    tmp_path: Path, output: int, extra: int
) -> None:
    objects = FilesystemStore(tmp_path / "objects")
    with Workspace(tmp_path / "work", record(), objects) as space:
        with pytest.raises(StageFailed, match="is larger than the 10 bytes") as refused:
            space.store_outputs(result_of(space, output=output, extra=extra), max_bytes=10)
        assert "MODELMILL_MAX_ARTIFACT_BYTES" in refused.value.hint
        assert len(space.store_outputs(result_of(space, output=10, extra=10), max_bytes=10)) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"output": "{tmp}/secret"}, "secret is outside of the work folder"),
        ({"extra_files": {"onnx.meta.zip": "{tmp}/secret"}}, "secret is outside of the work folder"),
        ({"extra_files": {"receipt.json": "{folder}/out.onnx"}}, "receipt.json is no file of this stage"),
    ],
    ids=["the output", "an extra file", "a name"],
)
def test_a_result_that_names_files_of_others_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    objects = FilesystemStore(tmp_path / "objects")
    (tmp_path / "secret").write_text("of the worker")
    with Workspace(tmp_path / "work", record(), objects) as space:
        text = json.dumps(change).replace("{tmp}", str(tmp_path)).replace("{folder}", str(space.folder))
        result = {**result_of(space, output=1, extra=1), **json.loads(text)}
        with pytest.raises(StageFailed, match=reason):
            space.store_outputs(result, max_bytes=1000)
    assert list(objects.list("")) == []


class _FullAtLast(FilesystemStore):
    """Has room for the first two objects."""

    def put_file(self, key: str, path: Path, **options: Any) -> Any:
        if len(list(self.list(""))) >= 2:
            raise StoreFull("The object store is full.")
        return super().put_file(key, path, **options)


def test_a_store_that_fills_up_between_two_results_keeps_neither(tmp_path: Path) -> None:
    objects = _FullAtLast(tmp_path / "objects")
    with Workspace(tmp_path / "work", record(), objects) as space, pytest.raises(StoreFull):
        space.store_outputs(result_of(space, output=1, extra=1), max_bytes=10)
    assert list(objects.list(object_keys.job(JOB_ID))) == []


def test_a_failed_stage_whose_log_cannot_be_stored_keeps_its_own_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer_retry, "PAUSES_S", (0.01,))
    nobody = S3Store("http://127.0.0.1:1", access_key="a", secret_key="b", bucket="nobody")
    with Workspace(tmp_path / "work", record(), nobody) as space:
        space.log.write_bytes(b"the last words")
        assert runner._log_if_possible(space, StageCrashed("crashed: SIGSEGV")) == {}


# --- a full disk --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "is_disk"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), True),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), True),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), False),
        (StageFailed("OSError: [Errno 28] No space left on device"), True),
        (StageFailed("ValueError: too many values"), False),
        (StageCancelled("cancelled: No space left on device"), False),
        (StageTimedOut("timed out after 3 s"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_lack_of_space_is_told_from_other_failures(tmp_path: Path, error: BaseException, is_disk: bool) -> None:
    objects = FilesystemStore(tmp_path / "objects")
    with Workspace(tmp_path / "work", record(), objects) as space:
        cause = space.cause_of(error)
    assert isinstance(cause, WorkDiskFull) == is_disk
    assert is_disk or cause is error
