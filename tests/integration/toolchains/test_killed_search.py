"""A search whose process is killed in the middle, in the sandbox: what is measured again, and what comes out."""

from __future__ import annotations

import collections
import json
import os
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from app.conversion.options import Options
from app.conversion.stages.child import run_stage
from app.conversion.stages.continuation import run_with_continuation
from app.conversion.toolchains.base import SCRATCH, SEARCH_JOURNAL, Progress
from app.conversion.toolchains.host.search.judge import Judge
from app.kit.sandbox.errors import StageOutOfMemory
from app.kit.sandbox.runner import Finished, Hooks, Limits, Sandbox
from tests.harness.api import npz
from tests.unit.conversion.toolchains.host.search.test_search import network, pictures

LIMITS = Limits(memory_bytes=2 << 30, time_s=300, threads=1)
TARGET = "tests.integration.toolchains.test_killed_search:stage"


def stage(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Runs the stage; processes are killed while they judge the candidate after this number of results."""
    folder, judge = Path(request["work_dir"]), Judge.judge
    left, journal = folder / "kills", folder / SCRATCH / SEARCH_JOURNAL

    def judged(self: Judge, *args: Any, **kwargs: Any) -> Any:
        kills = int(left.read_text())
        if kills and journal.read_text().count('"value"') == request["after"]:
            left.write_text(str(kills - 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(self, *args, **kwargs)

    Judge.judge = judged  # type: ignore[method-assign]
    return run_stage(request, progress)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(libraries=["onnx", "onnxruntime", "app.conversion.toolchains.host.bie_stage"])
    yield made
    made.close()


def converted(sandbox: Sandbox, folder: Path, kills: int, after: int = 0) -> tuple[Finished, bytes]:
    """Returns what the stage reports, and its log."""
    (folder / SCRATCH).mkdir(parents=True)
    onnx.save(network(outlier=40.0, activation="Softplus"), folder / "out.onnx")
    images = folder / SCRATCH / "quant"
    with zipfile.ZipFile(images, "w") as archive:
        for one in pictures(12):
            archive.writestr(f"{one.name}.npz", npz(**one.arrays))
    (folder / "kills").write_text(str(kills))
    request = {
        "stage": "BIE",
        "work_dir": str(folder),
        "images": str(images),
        "options": Options.model_validate({"quantization": {"goal": "snr>=30"}}).model_dump(mode="json"),
        "threads": 1,
        "time_s": LIMITS.time_s,
        "limits": {"max_images": 100, "unpacked_bytes": 1 << 28},
        "kneron_python": "/nowhere",
        "after": after,
    }
    log = bytearray()

    def run(*, limits: Limits) -> Finished:
        hooks = Hooks(on_log=log.extend)
        return sandbox.run(TARGET, request, work_dir=folder, limits=limits, hooks=hooks)

    return run_with_continuation(run, LIMITS, folder / SCRATCH / SEARCH_JOURNAL, log.extend), bytes(log)


def begun(folder: Path) -> collections.Counter[str]:
    rows = [json.loads(line) for line in (folder / SCRATCH / SEARCH_JOURNAL).read_text().splitlines()]
    return collections.Counter(row["name"] for row in rows[1:] if "value" not in row)


def without_times(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: one[name] for name in one if name != "latency_ms"} for one in report["search"]["candidates"]]


def test_only_what_was_being_measured_is_measured_again_and_the_result_is_the_same(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    whole, _ = converted(sandbox, tmp_path / "whole", kills=0)
    killed, log = converted(sandbox, tmp_path / "killed", kills=1, after=3)
    again = {name for name, count in begun(tmp_path / "killed").items() if count > 1}
    assert len(again) == 1 and next(iter(again)).startswith("candidate"), "the one that was being judged"
    assert begun(tmp_path / "whole").keys() == begun(tmp_path / "killed").keys()
    assert without_times(killed.result["report"]) == without_times(whole.result["report"])
    assert (tmp_path / "killed" / "out.bie").read_bytes() == (tmp_path / "whole" / "out.bie").read_bytes()
    assert b"another goes on after 3 measurements" in log and b"going on after 3 measurements" in log


@pytest.mark.exhaustive
def test_a_candidate_that_ends_its_process_twice_is_left_out(sandbox: Sandbox, tmp_path: Path) -> None:
    finished, log = converted(sandbox, tmp_path / "killed", kills=2, after=2)
    assert b"cannot be made: it ended the process each time" in log
    assert max(begun(tmp_path / "killed").values()) == 2 and finished.result["report"]["verdict"]["passed"]


def test_a_process_that_is_killed_before_anything_was_measured_fails_the_stage(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    with pytest.raises(StageOutOfMemory):
        converted(sandbox, tmp_path / "killed", kills=1)
