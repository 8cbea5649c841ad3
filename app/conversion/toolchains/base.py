"""The contract of every toolchain. It runs inside a sandbox child; its output is the stage's log.

The work folder has the layout of the requirement: one input file (any name), `ref_images/`, then out.onnx, out.bie,
out.nef. A toolchain writes its output into that folder, keeps scratch files in `scratch/` under it, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Protocol

from app.conversion import model
from app.conversion.model import Stage
from app.conversion.options import Options, ToolchainName
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

REF_IMAGES = "ref_images"
SCRATCH = "scratch"
SEARCH_JOURNAL = "search.jsonl"
"""In SCRATCH: what a search has measured, from which another process can go on."""
OUTPUTS = {Stage.ONNX: "out.onnx", Stage.BIE: "out.bie", Stage.NEF: "out.nef"}
SNR_DB_MIN = model.SNR_DB_MIN

FEW_SAMPLES, GOOD_SAMPLES = 20, 100
"""Kneron's manual asks for at least 100 reference samples; field practice: below 20 the ranges are a guess."""

Progress = Callable[[float, str], None]
"""Called as progress(fraction 0..1 of this stage, what is being done)."""


@dataclass(frozen=True)
class StageRequest:
    """What a stage is asked to do."""

    stage: Stage
    work_dir: Path
    options: Options
    threads: int
    time_s: float = inf
    """After which it is ended, in seconds by the clock."""

    @property
    def ref_images(self) -> Path:
        return self.work_dir / REF_IMAGES

    @property
    def output(self) -> Path:
        return self.work_dir / OUTPUTS[self.stage]

    def input(self) -> Path:
        """Returns the file that this stage reads: for ONNX the only file in the work folder, otherwise the previous
        stage's.

        Raises:
            StageFailed: The file does not exist.
        """
        if self.stage is Stage.ONNX:
            files = [p for p in self.work_dir.iterdir() if p.is_file() and not p.name.startswith(("out.", "."))]
            if len(files) != 1:
                raise StageFailed(f"the work folder should hold one input file, but holds {len(files)}")
            return files[0]
        path = self.work_dir / OUTPUTS[Stage.ONNX if self.stage is Stage.BIE else Stage.BIE]
        if not path.is_file():
            raise StageFailed(f"{path.name} of the stage before is missing")
        return path

    def scratch(self) -> Path:
        path = self.work_dir / SCRATCH
        path.mkdir(exist_ok=True)
        return path


@dataclass(frozen=True)
class StageResult:
    """What a stage has made, besides its output file."""

    output: Path
    report: JsonObject
    """All measurements as JSON, stored as an artifact."""
    summary: JsonObject = field(default_factory=dict)
    """The few numbers that the record keeps."""
    versions: dict[str, str] = field(default_factory=dict)
    """Version by tool."""
    extra_files: dict[str, Path] = field(default_factory=dict)
    """Other files that are kept, by artifact name."""


class Toolchain(Protocol):
    """What carries out stages."""

    name: ToolchainName

    def run(self, request: StageRequest, progress: Progress) -> StageResult:
        """Carry out one stage.

        Args:
            progress: called with the fraction 0..1 of this stage and what is being done.

        Raises:
            StageFailed: With a reason and a hint for the user.
        """
        ...
