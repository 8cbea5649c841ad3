"""A real model as the host toolchain converts it: once a run, whichever processes of it want to have it."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from app.conversion.options import Options
from tests.harness.models.host import run_all, work_folder

FACES = "face_rfb_320"
OPTIONS = Options.model_validate(
    {"preprocess": {"scale": 1, "mean": [127], "std": [128]}, "quantization": {"method": "minmax"}}
)


def converted_faces(folders: pytest.TempPathFactory, data: Path) -> Path:
    """Folder with out.onnx, out.bie and out.nef of the face detector, calibrated on its pictures."""

    def samples(folder: Path) -> None:
        for path in sorted((data / "images").glob("face_*.jpg")):
            shutil.copy(path, folder)

    base = folders.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"converted-{FACES}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "out.nef").exists():
            shutil.rmtree(folder, ignore_errors=True)
            run_all(work_folder(folder, data / "models" / f"{FACES}.onnx", samples), OPTIONS)
    return folder
