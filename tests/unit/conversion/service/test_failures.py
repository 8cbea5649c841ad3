"""Whose fault a failure is, and what earlier ones teach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from app.conversion.model import Artifact, JobError, JobRecord, Status, submitted
from app.conversion.options import HostQuantization, Options
from app.conversion.service.failures import Blame, OptionChange, alike, blame_of

CYCLE = JobError("onnx", "the graph has a cycle", code="STAGE_FAILED", detail={"node": "conv7"})


def job(name: str, *, sha256: str = "m", error: JobError | None = None, opset: int = 11, **options: Any) -> JobRecord:
    record = submitted(
        str(uuid4()),
        now="2026-11-20T20:00:00.000Z",
        owner="local",
        name=name,
        tags=(),
        options=Options(**options),
        inputs={"model.onnx": Artifact("k", 1, sha256)},
        intake={"model": {"opset": opset}},
    )
    return replace(record, error=error, status=Status.FAILED if error else Status.COMPLETED)


@pytest.mark.parametrize(
    ("code", "blame"),
    [
        ("MODEL_UNSUPPORTED_OPERATOR", Blame.YOURS),
        ("IMAGES_DAMAGED", Blame.YOURS),
        ("STAGE_NOT_FINITE", Blame.YOURS),
        ("TOOLCHAIN_FAILED", Blame.TOOL),
        ("STAGE_CRASHED", Blame.TOOL),
        ("STAGE_OUT_OF_MEMORY", Blame.MACHINE),
        ("STAGE_OUT_OF_DISK", Blame.MACHINE),
        ("WORK_DISK_FULL", Blame.MACHINE),
        ("TOOLCHAIN_MISSING", Blame.MACHINE),
        ("INTERNAL_ERROR", Blame.OURS),
    ],
)
def test_a_failure_is_blamed_on_who_can_do_something_about_it(code: str, blame: Blame) -> None:
    assert blame_of(JobError("bie", "no", code=code)) is blame


def test_failures_at_the_same_node_are_counted_and_others_not() -> None:
    here = job("here", error=CYCLE)
    others = [
        here,
        job("again", error=replace(CYCLE, reason="in other words")),
        job("elsewhere", error=replace(CYCLE, detail={"node": "conv9"})),
        job("later", error=replace(CYCLE, step="bie")),
    ]
    similar = alike(here, others)
    assert similar.count == 1 and similar.remedy is None


def test_the_newest_of_the_model_that_passed_tells_what_was_different() -> None:
    here = job("net", error=CYCLE, opset=11)
    newer = job("net", sha256="another export", opset=17, quantization=HostQuantization(method="entropy"))
    similar = alike(here, [here, newer, job("net", sha256="older", opset=13)])
    assert similar.remedy is not None and similar.remedy.job is newer
    assert similar.remedy.changes == (
        OptionChange("opset", 11, 17),
        OptionChange("quantization.goal", "snr>=20", ""),
        OptionChange("quantization.method", "best", "entropy"),
    )


def test_a_job_of_another_model_or_without_a_difference_is_no_remedy() -> None:
    here = job("net", error=CYCLE)
    assert alike(here, [here, job("other", sha256="x", opset=17)]).remedy is None
    assert alike(here, [here, job("net")]).remedy is None
