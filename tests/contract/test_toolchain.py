"""What every toolchain keeps, whatever it does inside. A toolchain joins by adding a Bench to BENCHES."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from app.conversion.model import Stage
from app.conversion.options import Options, ToolchainName
from app.conversion.toolchains.base import OUTPUTS, StageRequest, StageResult, Toolchain
from app.conversion.toolchains.host.toolchain import HostToolchain
from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import StageFailed
from tests.harness.models.host import convolutional, pictures, work_folder
from tests.standins import kneron


@dataclass(frozen=True)
class Bench:
    """A toolchain, the options it is run with, and how its work folder is filled (model and ref_images/)."""

    name: ToolchainName
    toolchain: Callable[[], Toolchain]
    options: Options
    fill: Callable[[Path], Path]


@cache
def lock_folder() -> Path:
    """Where the vendor's lock lies, which is one per machine."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


BENCHES = [
    Bench(
        ToolchainName.HOST, HostToolchain, Options(), lambda folder: work_folder(folder, convolutional(), pictures(4))
    ),
    Bench(
        ToolchainName.KNERON,
        lambda: kneron.toolchain(lock_folder()),
        kneron.options("720"),
        lambda folder: kneron.Job(folder, kneron.model(), kneron.options("720")).folder,
    ),
]


@pytest.fixture(params=BENCHES, ids=lambda bench: bench.name.value, scope="class")
def bench(request: pytest.FixtureRequest) -> Bench:
    made: Bench = request.param
    return made


@dataclass(frozen=True)
class Run:
    folder: Path
    results: dict[Stage, StageResult]
    said: dict[Stage, list[tuple[float, str]]]


def run_stage(bench: Bench, folder: Path, stage: Stage, reported: list[tuple[float, str]]) -> StageResult:
    def progress(fraction: float, what: str) -> None:
        reported.append((fraction, what))

    return bench.toolchain().run(StageRequest(stage, folder, bench.options, threads=1), progress)


@pytest.fixture(scope="class")
def whole_run(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = bench.fill(tmp_path_factory.mktemp("job"))
    progress: dict[Stage, list[tuple[float, str]]] = {stage: [] for stage in Stage}
    return Run(folder, {stage: run_stage(bench, folder, stage, progress[stage]) for stage in Stage}, progress)


class TestToolchain:
    def test_it_says_its_name(self, bench: Bench) -> None:
        assert bench.toolchain().name is bench.name

    @pytest.mark.parametrize("stage", list(Stage))
    def test_every_stage_writes_its_output_where_the_requirement_wants_it(self, whole_run: Run, stage: Stage) -> None:
        result = whole_run.results[stage]
        assert result.output == whole_run.folder / OUTPUTS[stage]
        assert result.output.stat().st_size > 0

    @pytest.mark.parametrize("stage", list(Stage))
    def test_reports_and_summaries_are_json_without_nan(self, whole_run: Run, stage: Stage) -> None:
        result = whole_run.results[stage]
        json.dumps([result.report, result.summary, result.versions], allow_nan=False)
        assert result.report and result.versions

    @pytest.mark.parametrize("stage", list(Stage))
    def test_extra_files_lie_in_the_work_folder(self, whole_run: Run, stage: Stage) -> None:
        for path in whole_run.results[stage].extra_files.values():
            assert path.is_file() and path.is_relative_to(whole_run.folder)

    @pytest.mark.parametrize("stage", list(Stage))
    def test_progress_never_falls_and_stays_between_zero_and_one(self, whole_run: Run, stage: Stage) -> None:
        fractions = [fraction for fraction, _ in whole_run.said[stage]]
        assert fractions and fractions == sorted(fractions)
        assert fractions[0] >= 0.0 and fractions[-1] <= 1.0
        assert all(what for _, what in whole_run.said[stage])

    def test_nothing_is_left_in_the_work_folder_but_outputs_and_scratch(self, bench: Bench, whole_run: Run) -> None:
        names = {path.name for path in whole_run.folder.iterdir()}
        assert names <= {"model.onnx", "ref_images", "scratch", *OUTPUTS.values()}

    def test_a_later_stage_runs_in_a_fresh_folder_that_holds_only_its_input(
        self, bench: Bench, whole_run: Run, tmp_path: Path
    ) -> None:
        shutil.copy(whole_run.folder / OUTPUTS[Stage.BIE], tmp_path)
        assert run_stage(bench, tmp_path, Stage.NEF, []).output.stat().st_size > 0

    @pytest.mark.parametrize("stage", [Stage.BIE, Stage.NEF])
    def test_a_stage_without_its_input_fails_with_a_reason(self, bench: Bench, tmp_path: Path, stage: Stage) -> None:
        with pytest.raises(StageFailed) as caught:
            run_stage(bench, bench.fill(tmp_path), stage, [])
        assert caught.value.message

    def test_a_file_that_is_no_model_fails_with_an_error_made_for_users(self, bench: Bench, tmp_path: Path) -> None:
        folder = bench.fill(tmp_path)
        (folder / "model.onnx").write_bytes(b"this is not a model")
        with pytest.raises(ModelmillError) as caught:
            run_stage(bench, folder, Stage.ONNX, [])
        assert caught.value.message and caught.value.code != "INTERNAL_ERROR"
        assert not (folder / OUTPUTS[Stage.ONNX]).exists()
