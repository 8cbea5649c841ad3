"""When a job will be done, going by those that are."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from app.bootstrap.container import Container
from app.conversion.model import Stage, StageRecord, StageState, Status, submitted
from app.conversion.options import Options
from app.conversion.service import Estimates
from app.conversion.service.estimates import FinishedJob, accuracy, finish
from app.kit.clock import now, to_text
from app.settings import Settings
from tests.harness.conversion_jobs import past_job
from tests.harness.users import within

ALIKE = [past_job(10, 100, 5)] * 4
SPREAD = [past_job(10, 100 + 10 * at, 5) for at in range(11)]


def test_fewer_than_three_jobs_say_nothing() -> None:
    assert finish(ALIKE[:2], Stage.ONNX, elapsed_s=0, ahead=0, workers=1) is None


def test_a_waiting_job_has_all_its_stages_before_it() -> None:
    estimate = finish(ALIKE, Stage.ONNX, elapsed_s=0, ahead=0, workers=1)
    assert estimate is not None and (estimate.p50_s, estimate.p90_s, estimate.jobs) == (115, 115, 4)


def test_what_a_stage_has_run_already_is_taken_off() -> None:
    estimate = finish(ALIKE, Stage.BIE, elapsed_s=40, ahead=0, workers=1)
    assert estimate is not None and estimate.p50_s == 65


def test_the_range_goes_from_the_median_to_the_ninetieth_percentile() -> None:
    estimate = finish(SPREAD, Stage.BIE, elapsed_s=0, ahead=0, workers=1)
    assert estimate is not None and (estimate.p50_s, estimate.p90_s) == (155, pytest.approx(195))


def test_a_job_that_ran_long_is_compared_with_long_ones() -> None:
    """After 160 s those jobs count that took 160 s or more: five of eleven."""
    estimate = finish(SPREAD, Stage.BIE, elapsed_s=160, ahead=0, workers=1)
    assert estimate is not None and estimate.jobs == 5 and estimate.p50_s == 25 and not estimate.is_overdue


def test_a_job_that_runs_longer_than_nine_of_ten_is_overdue() -> None:
    estimate = finish(SPREAD, Stage.BIE, elapsed_s=1000, ahead=0, workers=1)
    assert estimate is not None and estimate.is_overdue and estimate.p50_s == 5


def test_those_ahead_are_shared_among_the_workers() -> None:
    alone = finish(ALIKE, Stage.BIE, elapsed_s=0, ahead=4, workers=1)
    shared = finish(ALIKE, Stage.BIE, elapsed_s=0, ahead=4, workers=2)
    assert alone is not None and shared is not None and (alone.p50_s, shared.p50_s) == (505, 305)


@pytest.mark.parametrize(("elapsed_s", "is_far"), [(40, False), (59, False), (61, True), (5000, True)])
def test_a_short_stage_is_far_over_its_time_after_a_minute(elapsed_s: float, is_far: bool) -> None:
    estimate = finish(ALIKE, Stage.ONNX, elapsed_s=elapsed_s, ahead=0, workers=1)
    assert estimate is not None and estimate.is_overdue and (estimate.usual_s, estimate.is_far_over) == (10, is_far)


@pytest.mark.parametrize(("elapsed_s", "is_far"), [(499, False), (501, True)])
def test_a_long_stage_is_far_over_its_time_after_five_times_of_it(elapsed_s: float, is_far: bool) -> None:
    estimate = finish(ALIKE, Stage.BIE, elapsed_s=elapsed_s, ahead=0, workers=1)
    assert estimate is not None and estimate.is_far_over is is_far


# --- how right the forecasts were ---------------------------------------------------------------------
def forecast(expected_s: float | None, took_s: float) -> FinishedJob:
    return FinishedJob("host", {}, took_s, expected_s)


def test_three_of_four_forecasts_were_off_by_so_much_or_less() -> None:
    """By 10, 10, 20, 50 and 100 % of what the job then took, in both directions."""
    pasts = [forecast(90, 100), forecast(110, 100), forecast(8, 10), forecast(300, 200), forecast(20, 10)]
    measured = accuracy([*pasts, forecast(None, 100)])
    assert measured is not None and (measured.jobs, measured.off_by) == (5, 0.5)


def test_too_few_forecasts_say_nothing_of_how_right_they_are() -> None:
    assert accuracy([forecast(1, 1)] * 2 + [forecast(None, 1)] * 9) is None


def finished(container: Container, forecast_s: float | None = None) -> None:
    """A job that was submitted 120 s before its end and ran 10, 20 and 30 s of that."""
    at = now()
    job = submitted(
        str(uuid4()),
        now=to_text(at),
        owner="local",
        name="",
        tags=(),
        options=Options(),
        inputs={},
        intake={},
        forecast_s=forecast_s,
    )
    stages = {
        step: StageRecord(
            state=StageState.DONE, started_at=to_text(at), finished_at=to_text(at + timedelta(seconds=ran_s))
        )
        for step, ran_s in (("onnx", 10), ("bie", 20), ("nef", 30))
    }
    end = to_text(at + timedelta(seconds=120))
    ended = replace(job, status=Status.COMPLETED, stage=Stage.NEF, stages=stages, finished_at=end)
    container.store.create(ended, score=at.timestamp())


def serve(container: Container) -> None:
    for stage in Stage:
        heartbeat = {"queue": stage.step, "toolchains": ["host"], "job_id": None}
        container.store.announce(f"h/{stage.step}/0", json.dumps(heartbeat), 3600)


def test_what_is_expected_at_submission_goes_by_the_jobs_before_and_those_ahead(container: Container) -> None:
    for _ in range(3):
        finished(container)
    assert container.conversion.estimates.forecast_s("host") is None, "nobody works"
    estimates = Estimates(container.store, container.broker)
    serve(container)
    container.broker.send("onnx", "run_onnx", message_id="ahead", job_id="ahead")
    assert estimates.forecast_s("host") == pytest.approx(10 + 60)
    assert estimates.forecast_s("kneron") is None


@pytest.mark.slow
def test_the_page_of_a_job_says_how_right_forecasts_were(container: Container, settings: Settings) -> None:
    for _ in range(4):
        finished(container, forecast_s=90)
    serve(container)
    job = submitted(
        str(uuid4()), now=to_text(now()), owner="local", name="", tags=(), options=Options(), inputs={}, intake={}
    )
    container.store.create(job, score=now().timestamp())
    with within(settings) as web:
        page = web.get(f"/ui/jobs/{job.job_id}", headers={"Accept": "text/html"}).text
        assert "three out of four of the last 4 forecasts were right within 25 %" in page
        assert web.get(f"/jobs/{job.job_id}").json()["forecast_s"] is None


@pytest.mark.slow
def test_the_system_page_says_how_right_the_forecasts_of_each_toolchain_were(
    container: Container, settings: Settings
) -> None:
    with within(settings) as web:
        assert web.get("/system").json()["forecasts"] == {}
        assert "Forecasts" not in web.get("/ui/system", headers={"Accept": "text/html"}).text
    for _ in range(4):
        finished(container, forecast_s=90)
    finished(container)
    with within(settings) as web:
        page = web.get("/ui/system", headers={"Accept": "text/html"}).text
        assert "Forecasts" in page
        assert "three out of four of the last 4 forecasts were right within 25 %" in page
        assert web.get("/system").json()["forecasts"] == {"host": {"jobs": 4, "off_by": 0.25}}
        page = web.get("/ui/system", headers={"Accept": "text/html", "Accept-Language": "zh-TW"}).text
        assert "最近 4 次預估中，四分之三的誤差在 25 % 以內" in page
