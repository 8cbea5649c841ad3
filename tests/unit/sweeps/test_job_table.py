"""Ticked jobs as a table."""

from __future__ import annotations

from dataclasses import replace

from app.conversion.model import Artifact, JobRecord, StageState, submitted
from app.conversion.model.digest import digest
from app.conversion.options import HostQuantization, Options
from app.sweeps.job_table import differences, rows_of


def job(name: str, model: str, snr_db: float, size_bytes: int, *, method: str = "minmax") -> JobRecord:
    record = submitted(
        name,
        now="2026-11-20T20:00:00.000Z",
        owner="local",
        name=name,
        tags=(),
        options=Options(quantization=HostQuantization(method=method)),  # type: ignore[arg-type]
        inputs={"model.onnx": Artifact("k", 1, model)},
        intake={},
    )
    summaries = {"bie": {"snr_db": snr_db}, "nef": {"size_bytes": size_bytes}}
    measured = {step: replace(record.stages[step], summary=summary) for step, summary in summaries.items()}
    return replace(record, stages={**record.stages, **measured})


def test_the_best_of_each_model_are_marked_whatever_their_jobs_are_called() -> None:
    jobs = [
        job("face · minmax", "m1", 20.0, 100),
        job("another try", "m1", 19.0, 100, method="entropy"),
        job("face", "m2", 10.0, 900),
    ]
    rows = rows_of(jobs)
    assert [(row.model_name, row.variant, row.is_best) for row in rows] == [
        ("face (m1)", "face · minmax", True),
        ("face (m1)", "another try", False),
        ("face (m2)", "face", True),
    ]


def test_a_row_has_the_size_and_latency_that_the_list_of_jobs_shows() -> None:
    measured = job("net", "m1", 30.0, 900)
    (of_nef,) = rows_of([measured])
    assert (of_nef.size_bytes, of_nef.latency_ms, of_nef.rule_db) == (900, None, 20.0)
    bie = replace(
        measured.stages["bie"], summary={"snr_db": 30.0, "size_bytes": 700, "latency_ms": 1.5, "rule_db": 30.0}
    )
    (of_bie,) = rows_of([replace(measured, stages={**measured.stages, "bie": bie})])
    assert (of_bie.size_bytes, of_bie.latency_ms, of_bie.rule_db) == (700, 1.5, 30.0)


def test_a_job_that_waits_for_a_worker_is_told_from_one_that_runs() -> None:
    queued = job("net", "m1", 30.0, 900)
    running = replace(queued.stages["onnx"], state=StageState.RUNNING)
    rows = rows_of([queued, replace(queued, stages={**queued.stages, "onnx": running})])
    assert [(row.status, row.is_waiting) for row in rows] == [("ONNX", True), ("ONNX", False)]


def test_a_model_whose_name_is_its_own_is_called_by_it_alone() -> None:
    assert [row.model_name for row in rows_of([job("net", "m1", 1.0, 1)])] == ["net"]
    nameless = replace(job("net", "m1", 1.0, 1), name="", job_id="0123456789")
    assert [(row.model_name, row.variant) for row in rows_of([nameless])] == [("01234567", "01234567")]


def test_a_model_is_called_as_its_oldest_job_whichever_comes_first() -> None:
    later = replace(job("face again", "m1", 1.0, 1), created_at="2026-11-21T20:00:00.000Z")
    assert [row.model_name for row in rows_of([later, job("face", "m1", 1.0, 1)])] == ["face", "face"]


def test_only_options_that_differ_between_jobs_of_a_model_are_told() -> None:
    jobs = [job("a", "m1", 1.0, 1), job("b", "m1", 1.0, 1, method="entropy"), job("c", "m2", 1.0, 1)]
    assert differences(jobs) == {0: "method minmax", 1: "method entropy"}
    assert differences(jobs[1:]) == {}


def test_a_job_made_by_steps_has_no_method() -> None:
    steps = {"steps": [{"kind": "range", "method": "mse"}], "goal": "none"}
    made, plain = (
        replace(job(name, "m1", 1.0, 1), options=Options(quantization=HostQuantization.model_validate(values)))
        for name, values in (("made", steps), ("plain", {"method": "entropy"}))
    )
    texts = differences([made, plain])
    assert "method best" not in texts[0] and "method entropy" in texts[1]
    assert [digest(record).labels["method"] for record in (made, plain)] == [frozenset(), {"entropy"}]


def test_an_option_that_one_job_does_not_use_is_named_for_the_other_alone() -> None:
    searched, plain = (
        replace(job(name, "m1", 1.0, 1), options=Options(quantization=quantization))
        for name, quantization in (
            ("searched", HostQuantization(goal="snr>=20")),
            ("plain", HostQuantization(method="minmax")),
        )
    )
    assert differences([searched, plain]) == {0: "goal snr>=20", 1: "method minmax"}
