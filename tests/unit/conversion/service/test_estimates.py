"""When a job will be done, going by those that are."""

from __future__ import annotations

import pytest

from app.conversion.model import Stage
from app.conversion.service.estimates import Past, finish


def past(onnx: float, bie: float, nef: float) -> Past:
    return Past("host", {Stage.ONNX: onnx, Stage.BIE: bie, Stage.NEF: nef})


ALIKE = [past(10, 100, 5)] * 4
SPREAD = [past(10, 100 + 10 * at, 5) for at in range(11)]


def test_fewer_than_three_jobs_say_nothing() -> None:
    assert finish(ALIKE[:2], Stage.ONNX, elapsed_s=0, ahead=0, workers=1) is None


def test_a_waiting_job_has_all_its_stages_before_it() -> None:
    found = finish(ALIKE, Stage.ONNX, elapsed_s=0, ahead=0, workers=1)
    assert found is not None and (found.p50_s, found.p90_s, found.jobs) == (115, 115, 4)


def test_what_a_stage_has_run_already_is_taken_off() -> None:
    found = finish(ALIKE, Stage.BIE, elapsed_s=40, ahead=0, workers=1)
    assert found is not None and found.p50_s == 65


def test_the_range_goes_from_the_median_to_the_ninetieth_percentile() -> None:
    found = finish(SPREAD, Stage.BIE, elapsed_s=0, ahead=0, workers=1)
    assert found is not None and (found.p50_s, found.p90_s) == (155, pytest.approx(195))


def test_a_job_that_ran_long_is_compared_with_long_ones() -> None:
    """After 160 s those jobs count that took 160 s or more: five of eleven."""
    found = finish(SPREAD, Stage.BIE, elapsed_s=160, ahead=0, workers=1)
    assert found is not None and found.jobs == 5 and found.p50_s == 25 and not found.is_overdue


def test_a_job_that_runs_longer_than_nine_of_ten_is_overdue() -> None:
    found = finish(SPREAD, Stage.BIE, elapsed_s=1000, ahead=0, workers=1)
    assert found is not None and found.is_overdue and found.p50_s == 5


def test_those_ahead_are_shared_among_the_workers() -> None:
    alone = finish(ALIKE, Stage.BIE, elapsed_s=0, ahead=4, workers=1)
    shared = finish(ALIKE, Stage.BIE, elapsed_s=0, ahead=4, workers=2)
    assert alone is not None and shared is not None and (alone.p50_s, shared.p50_s) == (505, 305)


@pytest.mark.parametrize(("elapsed_s", "is_far"), [(40, False), (59, False), (61, True), (5000, True)])
def test_a_short_stage_is_far_over_its_time_after_a_minute(elapsed_s: float, is_far: bool) -> None:
    found = finish(ALIKE, Stage.ONNX, elapsed_s=elapsed_s, ahead=0, workers=1)
    assert found is not None and found.is_overdue and (found.usual_s, found.is_far_over) == (10, is_far)


@pytest.mark.parametrize(("elapsed_s", "is_far"), [(499, False), (501, True)])
def test_a_long_stage_is_far_over_its_time_after_five_times_of_it(elapsed_s: float, is_far: bool) -> None:
    found = finish(ALIKE, Stage.BIE, elapsed_s=elapsed_s, ahead=0, workers=1)
    assert found is not None and found.is_far_over is is_far
