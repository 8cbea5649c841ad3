"""The figures, the bar and the words of the first screen of a job's page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.conversion.model import JobError, JobRecord, Stage, StageRecord, StageState, Status, submitted
from app.conversion.options import Options
from app.conversion.pages import job_view
from app.conversion.service.quality.goal import StatedGoal
from app.conversion.service.quality.views import Boundary, LayerQuality, OutputQuality, Quality, Spread

MINUTE = "2026-11-20T20:{:02d}:{:02d}.000Z"


def output(name: str, snr_db: float | None, **more: Any) -> OutputQuality:
    return OutputQuality(name, Spread(mean=snr_db, min=snr_db, n=8), Spread(mean=0.9), **more)


def layer(position: int, snr_db: float, *, is_int8: bool = True) -> LayerQuality:
    return LayerQuality(position, f"n{position}", "Conv", is_int8, "", Spread(mean=snr_db), Spread(), None, None)


def quality(*outputs: OutputQuality, **more: Any) -> Quality:
    ends = Boundary("optimise", "a", "b", "exact"), Boundary("compile", "b", "c", "bit_true", samples=8)
    return Quality("host", (ends[0], Boundary("quantise", "b", "c", "measured", outputs=outputs), ends[1]), **more)


def job(**ran_s: int) -> JobRecord:
    """A job whose stages took so long, one after the other without a pause."""
    record = submitted(
        "id", now=MINUTE.format(0, 0), owner="", name="", tags=(), options=Options(), inputs={}, intake={}
    )
    at, stages = 0, dict(record.stages)
    for step, seconds in ran_s.items():
        stages[step] = StageRecord(
            state=StageState.DONE,
            started_at=MINUTE.format(0, at),
            finished_at=MINUTE.format(0, at + seconds),
        )
        at += seconds
    return replace(record, stages=stages)


def test_the_headline_names_the_worst_output_and_counts_those_below_the_rule() -> None:
    headline = job_view.headline(quality(output("a", 30.0), output("b", 16.2), output("c", 19.9), output("d", None)))
    assert (headline.snr_db, headline.output, headline.below, headline.outputs) == (16.2, "b", 2, 4)
    assert headline.is_below and headline.rule_db == 20.0


def test_a_goal_in_db_is_the_rule_and_a_goal_of_another_kind_is_not() -> None:
    outputs = output("a", 24.0)
    with_goal = quality(outputs, goal=StatedGoal("snr>=30", "snr", 30.0))
    assert job_view.headline(with_goal).is_below
    fastest = quality(outputs, goal=StatedGoal("fastest", "fastest"))
    assert not job_view.headline(fastest).is_below


def test_layers_in_float_are_told_from_those_in_int8() -> None:
    headline = job_view.headline(quality(layers=(layer(1, 30.0), layer(2, 20.0, is_int8=False))))
    assert (headline.layers, headline.int8_layers, headline.snr_db) == (2, 1, None)


def test_outputs_far_above_the_rule_fold_into_a_number() -> None:
    outputs = [output(f"o{n}", 60.0 + n) for n in range(10)] + [output("low", 12.0), output("near", 24.0)]
    notable = job_view.notable_outputs(outputs, 20.0)
    assert [one.name for one in notable.shown] == ["low", "near", "o0", "o1"]
    assert (notable.others, notable.others_from_db) == (8, 62.0)


def test_every_output_near_the_rule_is_shown_however_many() -> None:
    notable = job_view.notable_outputs([output(str(n), 20.0 + n / 10) for n in range(9)], 20.0)
    assert len(notable.shown) == 9 and notable.others == 0 and notable.others_from_db is None


def test_the_stages_are_as_wide_as_they_took_and_none_vanishes() -> None:
    spans = job_view.stage_spans(job(onnx=12, bie=36, nef=0))
    assert [span.parts for span in spans] == [6, 18, job_view.LEAST_PARTS]
    assert [span.kind for span in spans] == ["done", "done", "done"]


def test_what_has_not_run_waits_and_what_broke_is_told_from_what_was_cancelled() -> None:
    record = job(onnx=3)
    broken = replace(record, stages={**record.stages, "bie": StageRecord(state=StageState.FAILED)})
    kinds = [span.kind for span in job_view.stage_spans(replace(broken, error=JobError("bie", "no")))]
    assert kinds == ["done", "failed", "wait"]
    cancelled = replace(broken, error=JobError("bie", "CANCELLED", code="CANCELLED"))
    assert [span.kind for span in job_view.stage_spans(cancelled)] == ["done", "wait", "wait"]


def test_waiting_is_what_no_stage_ran_in() -> None:
    record = replace(job(onnx=3, bie=10, nef=2), finished_at=MINUTE.format(0, 25))
    assert job_view.measure_wait_s(record) == 10.0
    assert job_view.measure_wait_s(job(onnx=3)) == 0.0


def test_outputs_that_one_operator_flatters_share_a_notice() -> None:
    flattered = [output(str(n), 90.0, saturates="Sigmoid") for n in range(6)]
    groups = job_view.saturating_groups([*flattered, output("p", 90.0, saturates="Softmax"), output("q", 30.0)])
    assert [(operator, len(outputs)) for operator, outputs in groups] == [("Sigmoid", 6), ("Softmax", 1)]


def test_no_sentence_of_a_failure_is_told_twice() -> None:
    reason = "the graph  has a cycle"
    facts = [("runtime message", "Error: The graph has a cycle at conv7"), ("node", "conv7")]
    assert job_view.facts_beyond_reason(reason, facts) == [("node", "conv7")]
    lines = ["read the model", "failed: the graph has a cycle", "hint: Export it again."]
    assert job_view.new_lines([reason, "Export it again."], lines) == ["read the model"]
    assert job_view.new_lines([""], lines) == lines


def test_remarks_do_not_repeat_the_verdict_nor_each_other() -> None:
    warnings = ("the worst output has an SNR of 16.18 dB, below 20 dB: try", "an odd opset", "an odd opset")
    assert job_view.remarks(quality(warnings=warnings)) == ["an odd opset"]


@pytest.mark.parametrize(
    ("status", "passed", "error", "icon"),
    [
        (Status.BIE, None, None, "running"),
        (Status.COMPLETED, True, None, "done"),
        (Status.COMPLETED, False, None, "warning"),
        (Status.COMPLETED, None, None, "done"),
        (Status.FAILED, None, JobError("bie", "no"), "failed"),
    ],
)
def test_the_icon_of_the_tab_says_how_the_job_stands(
    status: Status, passed: bool | None, error: JobError | None, icon: str
) -> None:
    record = job(onnx=1)
    stages = {**record.stages, Stage.BIE.step: StageRecord(summary={"passed": passed})}
    assert job_view.state_icon(replace(record, status=status, error=error, stages=stages)) == icon
