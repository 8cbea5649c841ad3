"""What the profile policy does not try again for a while."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.video.scheduling.backoffs import MOMENTS_S, MOST_KEPT, OVERLOAD_PAUSE, PAUSE, Backoffs


def test_a_bar_ends_and_each_time_lasts_longer() -> None:
    state: dict[str, Any] = {}
    Backoffs(state, 0.0).bar_node("a")
    assert Backoffs(state, PAUSE.first_s - 1).barred_nodes == {"a"}
    assert not Backoffs(state, PAUSE.first_s).barred_nodes
    Backoffs(state, 100.0).bar_node("a")
    assert Backoffs(state, 100.0 + PAUSE.growth * PAUSE.first_s - 1).barred_nodes == {"a"}


def _is_too_much(state: dict[str, Any], now: float, load: float, key: str = "big@edge0") -> bool:
    return Backoffs(state, now).is_too_much(key, lambda: load)


def test_what_was_too_much_is_barred_with_all_that_is_as_heavy_and_each_time_for_longer() -> None:
    state: dict[str, Any] = {}
    first_s = OVERLOAD_PAUSE.first_s
    Backoffs(state, 0.0).overload("big@edge0", 0.5, {"edge0": 0.9})
    assert [_is_too_much(state, first_s - 1, load) for load in (0.4, 0.45, 0.5, 2.0)] == [False, True, True, True]
    assert not _is_too_much(state, 1.0, 2.0, "small@edge0")
    assert not _is_too_much(state, first_s, 2.0)
    Backoffs(state, 100.0).overload("big@edge0", 0.5, {"edge0": 0.9})
    assert _is_too_much(state, 100.0 + OVERLOAD_PAUSE.growth * first_s - 1, 0.5)


def test_what_goes_on_although_it_is_too_much_is_barred_for_no_longer() -> None:
    state: dict[str, Any] = {}
    for now, load in ((0.0, 0.5), (1.0, 0.4), (2.0, 0.6)):
        Backoffs(state, now).overload("big@edge0", load, {})
    assert _is_too_much(state, 1.0 + OVERLOAD_PAUSE.first_s, 0.36), "the least load counts"
    assert not _is_too_much(state, 2.0 + OVERLOAD_PAUSE.first_s, 2.0)


@pytest.mark.parametrize(("others", "is_barred"), [(0.9, True), (0.7, True), (0.6, False)])
def test_what_was_too_much_is_forgiven_when_others_use_less_of_the_node(others: float, is_barred: bool) -> None:
    state: dict[str, Any] = {}
    Backoffs(state, 0.0).overload("big@edge0", 0.5, {"edge0": 0.9})
    Backoffs(state, 1.0).forgive_overloads({"edge0": others, "cloud0": 0.0})
    assert _is_too_much(state, 2.0, 0.5) is is_barred
    Backoffs(state, 2.0 * OVERLOAD_PAUSE.first_s).overload("big@edge0", 0.5, {"edge0": 0.9})
    assert _is_too_much(state, 3.5 * OVERLOAD_PAUSE.first_s, 0.5) is is_barred, "forgiven: the first pause again"


def test_a_clock_that_began_anew_bars_nothing_for_ever() -> None:
    state: dict[str, Any] = {}
    backoffs = Backoffs(state, 1e6)
    backoffs.bar_node("a")
    backoffs.overload("big@edge0", 0.5, {})
    backoffs.note_slow_link("cloud0", 20.0)
    later = Backoffs(state, 0.0)
    assert not later.barred_nodes
    assert not _is_too_much(state, 0.0, 0.5)
    assert Backoffs(state, PAUSE.longest_s).due({"cloud0": {"mbps": 2.0}})


def test_only_so_many_bars_are_kept_and_those_of_plans_in_stored_states_are_ignored() -> None:
    backoffs = Backoffs({"patience": {"bars": {"480p/24/0/0/JPEG/a:0@edge0": [1e3, 1e3]}}}, 0.0)
    assert not backoffs.barred_nodes
    for number in range(2 * MOST_KEPT):
        backoffs.now = float(number)
        backoffs.bar_node(f"n{number}")
        backoffs.overload(f"p{number}", 1.0, {})
    assert len(backoffs.node_pauses) == len(backoffs.overloads) == MOST_KEPT
    assert backoffs.is_too_much(f"p{2 * MOST_KEPT - 1}", lambda: 1.0)


def test_a_link_that_fell_is_tried_with_multiples_of_what_it_gives_and_growing_patience() -> None:
    state: dict[str, Any] = {}
    links = {"cloud0": {"mbps": 2.0}}
    Backoffs(state, 0.0).note_slow_link("cloud0", 20.0)
    assert Backoffs(state, PAUSE.first_s - 1).due(links) == {}
    assert Backoffs(state, PAUSE.first_s).due(links) == {"cloud0": [4.0, 8.0, 16.0, 20.0]}
    assert Backoffs(state, PAUSE.first_s + 1).due(links) == {}
    second = Backoffs(state, 2 * PAUSE.first_s)
    assert second.due({"cloud0": {"mbps": 15.0}}) == {"cloud0": [20.0]}, "no more than it was"
    assert second.fallen["cloud0"]["wait"] == PAUSE.growth**2 * PAUSE.first_s


def test_a_link_that_gives_again_what_it_gave_has_not_fallen() -> None:
    backoffs = Backoffs({}, 0.0)
    backoffs.note_slow_link("cloud0", 20.0)
    backoffs.forgive_links({"cloud0": {"mbps": 10.0}})
    assert backoffs.fallen
    backoffs.forgive_links({"cloud0": {"mbps": 17.0}})
    assert not backoffs.fallen


def test_late_frames_count_when_they_come_at_several_moments_of_a_minute() -> None:
    state: dict[str, Any] = {}
    for now, late_s in ((100.0, 0.5), (101.0, 0.5), (104.5, 0.25)):
        Backoffs(state, now).note_late(late_s)
    assert Backoffs(state, 105.0).late_s == 0.0, "one moment"
    Backoffs(state, 120.0).note_late(0.5)
    assert Backoffs(state, 120.0).late_s == 1.75
    assert Backoffs(state, 170.0).late_s == 0.0, "the first is forgotten"


@pytest.mark.parametrize("late_s", [1e300, float("inf")])
def test_more_late_seconds_than_are_looked_back_on_count_as_those(late_s: float) -> None:
    """A source that names a rate of next to nothing makes each of its frames stand for as long as one likes."""
    state: dict[str, Any] = {}
    for now in (100.0, 101.0, 120.0):
        Backoffs(state, now).note_late(late_s)
    json.dumps(state, allow_nan=False)
    assert Backoffs(state, 120.0).late_s == 3 * MOMENTS_S


def test_a_pause_is_as_long_as_demanded_at_least() -> None:
    state: dict[str, Any] = {}
    Backoffs(state, 100.0).bar_node("edge0", 60.0)
    assert Backoffs(state, 159.0).barred_nodes == {"edge0"}
    assert not Backoffs(state, 160.0).barred_nodes
    Backoffs(state, 160.0).bar_node("edge0", 60.0)
    assert Backoffs(state, 279.0).barred_nodes == {"edge0"}, "each time longer"
