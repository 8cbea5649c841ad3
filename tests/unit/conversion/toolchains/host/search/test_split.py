"""Which pictures calibrate, choose and report."""

from __future__ import annotations

import numpy as np
import pytest

from app.conversion.toolchains.host.search.split import Split, split_of, within
from app.conversion.toolchains.host.search.unlikeness import Looks
from tests.unit.conversion.toolchains.host.search.test_search import network, pictures, searched, snr_db

OWN = (1, 4, 7)


def looks(count: int) -> Looks:
    return np.random.default_rng(count).normal(size=(count, 4)).astype(np.float32)


def places(split: Split, *parts: int) -> list[int]:
    return [place for place, part in enumerate(split.part_of) if part in parts]


@pytest.mark.parametrize("count", [4, 12, 40])
def test_a_set_of_ones_own_reports_and_does_nothing_else(count: int) -> None:
    own = [place for place in OWN if place < count - 1]
    split = split_of(looks(count), own)
    assert split.report is not None and split.is_own_set
    assert places(split, split.report) == own
    assert split.report not in {*split.final, *split.choose}
    assert places(split, *split.final) == [place for place in range(count) if place not in own]
    for part in split.choose:
        assert part not in split.calibrating(part) or split.final == (part,)


def test_from_thirty_left_on_some_choose_and_none_of_them_report() -> None:
    split = split_of(looks(38), OWN)
    assert (split.size(0), split.size(1), split.size(2)) == (25, 10, 3)
    assert (split.choose, split.calibrating(1), split.calibrating(2)) == ((1,), (0,), (0, 1))


@pytest.mark.parametrize("count", [30, 37, 49])
def test_where_few_would_be_left_to_calibrate_half_of_those_that_choose_do(count: int) -> None:
    split = split_of(looks(count))
    assert split.choose == (1, 2)
    assert abs(split.size(1) - split.size(2)) <= 1
    assert split.size(*split.choose) == max(10, round(0.3 * count))
    assert split.calibrating(1) == (0, 2)
    assert split.calibrating(2) == (0, 1)
    assert split.final == (0, 1, 2)
    assert split.report == 3
    assert split.size(3) == 10


def test_without_one_a_third_set_is_made_or_those_that_choose_report() -> None:
    assert [split_of(looks(50)).size(part) for part in range(3)] == [25, 15, 10]
    few = split_of(looks(9))
    assert (few.report, few.is_own_set, few.choose) == (None, False, (0, 1, 2))


def test_a_clip_does_not_choose_and_report_where_other_scenes_are_there() -> None:
    """Of 28 frames of one clip and 12 photographs, few frames judge: they would tell of their clip alone."""
    seen = np.concatenate([looks(12) * 10, looks(28) / 100])
    split = split_of(seen)
    sets = split.choose, (split.report or 0,)
    judging = places(split, *sets[0], *sets[1])
    assert len([place for place in judging if place < 12]) == 12
    photographs = [len([place for place in places(split, *own) if place < 12]) for own in sets]
    assert min(photographs) >= 5, "both sets have about as many"


def test_a_folder_is_told_by_the_names_that_unpacking_gives() -> None:
    names = ["a.png", "report__a.png", "reports__b.png", "my_pictures__report__c.png", "report/d.png"]
    assert within(names, "report") == (1, 4)
    assert within(names, "my pictures/report/") == (3,)
    assert within(names, "nowhere") == ()


@pytest.mark.slow
def test_the_result_is_reported_on_the_set_of_ones_own() -> None:
    result = searched("snr>=20", count=9, reporting=OWN)
    judgement = result.judgement
    assert (judgement["is_own_set"], judgement["report"], judgement["n"]) == (True, 3, 3)
    assert (judgement["calibrate"], judgement["choose"], result.pictures) == (6, 6, 6)
    own = [snr_db(network(), result.model, pictures(9)[place].arrays) for place in OWN]
    assert (np.mean(own), np.min(own)) == pytest.approx((judgement["mean_db"], judgement["min_db"]), abs=0.01)
    assert not searched("snr>=20", count=9).judgement["is_own_set"]
