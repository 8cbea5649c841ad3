"""The three stages on the vendor's toolchain: prepare, run the vendor's process, check the result.

A stage has succeeded if its file exists and is not empty and its report is complete; the absence of an exception proves
nothing (vendor manual v0.33.1 and reports of its users).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.conversion.goals import parse_goal
from app.conversion.model import Stage
from app.conversion.options import Chip, KneronOptions, ToolchainName
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import SNR_DB_MIN, Progress, StageRequest, StageResult
from app.conversion.toolchains.journal import kept_in
from app.conversion.toolchains.kneron import arguments, operators, report, sidecar, staged_inputs, verdict
from app.conversion.toolchains.kneron.installation import DEFAULT_PYTHON
from app.conversion.toolchains.kneron.ladder import Rung, rungs
from app.conversion.toolchains.kneron.ladder_search import Quantized, search_ladder
from app.conversion.toolchains.kneron.phases import PhaseClock
from app.conversion.toolchains.kneron.vendor import RunnerResult, Vendor, VendorOutcome
from app.kit.files import sha256_of
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")


@dataclass(frozen=True)
class ScratchFolders:
    """The scratch folders of one stage."""

    scratch: Path
    output_dir: Path
    """The folder for the vendor's outputs."""
    keep: Path
    """The folder for files that are kept after the run."""

    @staticmethod
    def of(request: StageRequest) -> ScratchFolders:
        scratch = request.scratch().resolve() / f"kneron_{request.stage.step}"
        if not PLAIN_PATH.fullmatch(str(scratch)):
            raise StageFailed(
                f"the Kneron toolchain cannot work in {scratch}: it refuses special characters in a path",
                hint="Ask the operator for a work folder of letters, digits, dots, dashes and underscores only.",
            )
        staged_inputs.fresh_folder(scratch)
        return ScratchFolders(
            scratch, staged_inputs.fresh_folder(scratch / "out"), staged_inputs.fresh_folder(scratch / "keep")
        )

    def rung(self, number: int) -> ScratchFolders:
        """Returns the folders of one of several runs, outside of the stage's own, which another process that
        continues this stage empties."""
        scratch = staged_inputs.fresh_folder(self.scratch.with_name(f"{self.scratch.name}_rungs") / str(number))
        return ScratchFolders(
            scratch, staged_inputs.fresh_folder(scratch / "out"), staged_inputs.fresh_folder(scratch / "keep")
        )


@dataclass(frozen=True)
class CalibratedModel:
    """The inputs of every run of a quantization."""

    model: Path
    samples: dict[str, list[str]]
    """Input name → files of its samples."""


@dataclass(frozen=True)
class StageFacts:
    """The findings of one stage: facts for the report, the few numbers of the summary, and warnings."""

    facts: JsonObject
    summary: JsonObject
    warnings: list[str]


class KneronToolchain:
    name = ToolchainName.KNERON

    def __init__(self, python: Path = DEFAULT_PYTHON, **installation: Any) -> None:
        """
        Args:
            python: The vendor's interpreter.
            installation: The other fields of `Vendor`, for unusual installations.
        """
        self.vendor = Vendor(python=Path(python), **installation)

    def run(self, request: StageRequest, progress: Progress) -> StageResult:
        """Runs a stage.

        Raises:
            ToolchainMissing: The vendor's interpreter is missing, or cannot import the vendor's package.
            ToolchainFailed: The vendor's run failed.
            BadInput, StageFailed: Its inputs cannot be prepared; see `stage_model` and `stage_calibration`.
        """
        self.vendor.check()
        stages: dict[Stage, Callable[[StageRequest, Progress], StageResult]] = {
            Stage.ONNX: self._run_onnx,
            Stage.BIE: self._run_bie,
            Stage.NEF: self._run_nef,
        }
        return stages[request.stage](request, progress)

    def _run_onnx(self, request: StageRequest, progress: Progress) -> StageResult:
        progress(0.0, "preparing the model")
        room, chip = ScratchFolders.of(request), _choose_chip(request)
        staged = staged_inputs.stage_model(request, room.scratch / "model.onnx")
        chosen = {
            "optimize": arguments.optimize(request.options, staged.shapes),
            "evaluate": arguments.evaluate(request.options.kneron),
        }
        outcome = self._run(request, room, progress, staged.path, chosen)
        result = verdict.require_success(outcome, request.output)
        model = graph.load(request.output)
        estimate, warnings = verdict.evaluation(outcome)
        missing = operators.probably_missing(chip, model)
        facts = {
            "graph": graph.facts(model),
            "optimizer": result.get("optimizer"),
            "notes": staged.notes,
            "evaluation": estimate,
            "operators_probably_missing": missing,
            "operators_source": operators.source(),
        }
        warnings += arguments.name_warnings(list(staged.shapes))
        summary = {"fps_estimate": estimate.get("fps"), "operators_probably_missing": len(missing)}
        return self._build_result(request, room, result, StageFacts(facts, summary, warnings), {})

    def _run_bie(self, request: StageRequest, progress: Progress) -> StageResult:
        progress(0.0, "preparing the reference data")
        room, chip = ScratchFolders.of(request), _choose_chip(request)
        staged = Path(shutil.copyfile(request.input(), room.scratch / "model.onnx"))
        samples = staged_inputs.stage_calibration(
            request, graph.load(staged), staged_inputs.fresh_folder(room.scratch / "samples")
        )
        source = CalibratedModel(staged, samples.paths)
        options, quantized, searched = self._quantize_or_search(request, room, source, progress)
        shutil.rmtree(room.scratch / "samples")
        result, measured = quantized.result, quantized.measured
        bits = arguments.list_requested_bits(options)
        warnings = samples.warnings + report.bits_ignored(bits, measured.get("bits", {}))
        warnings += [] if measured else ["the toolchain left no report, so speed and bit widths are not known"]
        meta = sidecar.BieMeta(
            platform=chip.value,
            toolchain_version=self.vendor.version(),
            sha256=sha256_of(request.output),
            vendor_name=str(result.get("vendor_name", "")),
            model_id=request.options.kneron.model_id,
        )
        facts = {"samples": samples.count, "skipped": samples.skipped, "bits_requested": bits, "quantization": measured}
        facts |= searched
        summary: JsonObject = {key: measured.get(key) for key in ("fps", "itc_ms", "snr_db")}
        summary["passed"] = None if summary["snr_db"] is None else summary["snr_db"] >= SNR_DB_MIN
        summary |= {"samples": samples.count, "cpu_nodes": len(measured.get("cpu_nodes", []))}
        extra = {sidecar.NAME: meta.write(room.keep / sidecar.NAME)}
        return self._build_result(request, room, result, StageFacts(facts, summary, warnings), extra)

    def _quantize_or_search(
        self, request: StageRequest, room: ScratchFolders, source: CalibratedModel, progress: Progress
    ) -> tuple[KneronOptions, Quantized, JsonObject]:
        """Quantizes with the options, or searches for their goal.

        Returns:
            The arguments used, their result, and the report of the search.
        """
        options = request.options.kneron
        if not options.goal:
            return options, self._analyse(request, room, source, options, progress), {}

        def quantize(rung: Rung, number: int, report: Progress) -> Quantized:
            place = room.rung(number)
            own = replace(request, options=request.options.model_copy(update={"kneron": rung.options}))
            made = self._analyse(own, place, source, rung.options, report)
            return replace(made, bie=Path(shutil.move(made.bie, place.scratch / "rung.bie")))

        ladder, goal = rungs(_choose_chip(request), options), parse_goal(options.goal)
        names = [Path(path).name for paths in source.samples.values() for path in paths]
        kept = kept_in(request, self.vendor.version(), *names)
        outcome = search_ladder(ladder, goal, options.budget_s, quantize, progress, kept)
        shutil.copyfile(outcome.quantized.bie, request.output)
        return outcome.taken.rung.options, outcome.quantized, outcome.report

    def _analyse(
        self,
        request: StageRequest,
        room: ScratchFolders,
        source: CalibratedModel,
        options: KneronOptions,
        progress: Progress,
    ) -> Quantized:
        chosen = {"analysis": arguments.analysis(options, request.threads)}
        outcome = self._run(request, room, progress, source.model, chosen, calibration=source.samples)
        result = verdict.require_success(outcome, request.output)
        report = verdict.require_whole_report(outcome)
        return Quantized(result, report, request.output, request.output.stat().st_size)

    def _run_nef(self, request: StageRequest, progress: Progress) -> StageResult:
        progress(0.0, "checking the BIE file")
        room, chip = ScratchFolders.of(request), _choose_chip(request)
        meta = sidecar.read(request.work_dir / f"out.{sidecar.NAME}")
        warnings = sidecar.check(meta, request.input(), chip.value, self.vendor.version())
        name = meta.safe_name() if meta else sidecar.fallback_name(chip.value)
        staged = Path(shutil.copyfile(request.input(), room.scratch / name))
        chosen = {"compile": arguments.compile(chip, request.options.kneron)}
        outcome = self._run(request, room, progress, staged, chosen)
        result = verdict.require_success(outcome, request.output)
        probed, doubts = verdict.nef_file(request.output, chip, request.options.kneron.model_id)
        facts: JsonObject = {"nef": probed or {}, "compilation": verdict.report_of(result)}
        summary: JsonObject = {"chip": None, "crc_ok": None, "model_ids": []}
        if probed:
            ids = [model["id"] for model in probed["models"]]
            summary = {"chip": probed["chip"], "crc_ok": probed["crc_ok"], "model_ids": ids}
        return self._build_result(request, room, result, StageFacts(facts, summary, warnings + doubts), {})

    def _run(
        self,
        request: StageRequest,
        room: ScratchFolders,
        progress: Progress,
        source: Path,
        chosen: JsonObject,
        **more: Any,
    ) -> VendorOutcome:
        """Runs the vendor's process on one staged file."""
        options = request.options.kneron
        question = {
            "stage": request.stage.value,
            "input": str(source),
            "output": str(request.output.resolve()),
            "scratch": str(room.scratch),
            "output_dir": str(room.output_dir),
            "keep": str(room.keep),
            "search": [str(path) for path in self.vendor.search],
            "platform": _choose_chip(request).value,
            "model_id": options.model_id,
            "version": options.version,
            "arguments": {"config": arguments.config(options), **chosen},
            **more,
        }
        request.output.unlink(missing_ok=True)
        return self.vendor.run(question, room.scratch, PhaseClock(request.stage, progress).watch)

    def _build_result(
        self,
        request: StageRequest,
        room: ScratchFolders,
        result: RunnerResult,
        measured: StageFacts,
        extra: dict[str, Path],
    ) -> StageResult:
        """Returns the common result of every stage with the facts of this one."""
        dropped = result.get("dropped", [])
        unknown = arguments.warn_of_dropped(request.options.kneron, dropped)
        warnings = [*result.get("warnings", []), *measured.warnings, *unknown]
        chip, version, step = _choose_chip(request).value, self.vendor.version(), request.stage.step
        head = {"toolchain": self.name.value, "stage": step, "platform": chip, "toolchain_version": version}
        versions = {key: str(value) for key, value in result.get("versions", {}).items()}
        files = {f"{step}.{name}": Path(path) for name, path in result.get("files", {}).items()}
        shutil.rmtree(room.output_dir, ignore_errors=True)
        return StageResult(
            output=request.output,
            report={**head, **measured.facts, "warnings": warnings, "dropped_arguments": dropped},
            summary={"platform": chip, **measured.summary, "warnings": warnings},
            versions={"kneron_toolchain": version or "unknown", **versions},
            extra_files={**files, **extra},
        )


def _choose_chip(request: StageRequest) -> Chip:
    assert request.options.platform is not None, "options of toolchain kneron always name a chip"
    return request.options.platform
