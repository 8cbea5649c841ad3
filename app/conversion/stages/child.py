"""The stage in the sandbox child: unpacks the samples, selects the toolchain, runs it, returns plain data."""

from __future__ import annotations

import shutil
from pathlib import Path

from app.conversion.model import Stage
from app.conversion.options import Options, ToolchainName
from app.conversion.toolchains.base import Progress, StageRequest, Toolchain
from app.kit.text.json_values import JsonObject


def run_stage(request: JsonObject, progress: Progress) -> JsonObject:
    """Runs one stage in the sandbox.

    Args:
        request: {stage, work_dir, images, options, notes: lines for the log, threads, time_s, limits, kneron_python}.

    Returns:
        The fields of StageResult, paths as text.
    """
    for note in request.get("notes", ()):
        print(note)
    options = Options.model_validate(request["options"])
    stage, work_dir = Stage(request["stage"]), Path(request["work_dir"])
    stage_request = StageRequest(stage, work_dir, options, request["threads"], request["time_s"])
    if request["images"]:
        _unpack(Path(request["images"]), stage_request.ref_images, request["limits"])
    result = _open_toolchain(options.toolchain, Path(request["kneron_python"])).run(stage_request, progress)
    return {
        "output": str(result.output),
        "report": result.report,
        "summary": result.summary,
        "versions": result.versions,
        "extra_files": {name: str(path) for name, path in result.extra_files.items()},
    }


def _unpack(archive: Path, folder: Path, limits: dict[str, int]) -> None:
    """Does nothing if a process before this one has done it."""
    from app.conversion.intake.archive import extract

    if folder.exists() and not archive.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    extract(archive, folder, max_files=limits["max_images"], max_bytes=limits["unpacked_bytes"])
    archive.unlink()


def _open_toolchain(name: ToolchainName, kneron_python: Path) -> Toolchain:
    if name is ToolchainName.KNERON:
        from app.conversion.toolchains.kneron import KneronToolchain

        return KneronToolchain(kneron_python)
    from app.conversion.toolchains.host.toolchain import HostToolchain

    return HostToolchain()
