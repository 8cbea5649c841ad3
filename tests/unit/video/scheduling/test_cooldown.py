"""What the profile policy does not try again for a while."""

from __future__ import annotations

from typing import Any

from app.video.scheduling.cooldown import BARS_KEPT, PAUSE, Cooldown


def test_a_bar_ends_and_each_time_lasts_longer() -> None:
    state: dict[str, Any] = {}
    Cooldown(state, 0.0).bar("a")
    assert Cooldown(state, PAUSE.first_s - 1).is_barred("a")
    assert not Cooldown(state, PAUSE.first_s).is_barred("a")
    Cooldown(state, 100.0).bar("a")
    assert Cooldown(state, 100.0 + PAUSE.growth * PAUSE.first_s - 1).is_barred("a")
    assert not Cooldown(state, 100.0).is_barred("b")


def test_a_clock_that_began_anew_bars_nothing_for_ever() -> None:
    state: dict[str, Any] = {}
    patience = Cooldown(state, 1e6)
    patience.bar("a")
    patience.fell("cloud0", 20.0)
    later = Cooldown(state, 0.0)
    assert not later.is_barred("a")
    assert Cooldown(state, PAUSE.longest_s).due({"cloud0": {"mbps": 2.0}})


def test_only_so_many_bars_are_kept_and_nodes_are_told_from_plans() -> None:
    patience = Cooldown({}, 0.0)
    for number in range(2 * BARS_KEPT):
        patience.now = float(number)
        patience.bar(f"plan {number}")
    assert len(patience.bars) == BARS_KEPT
    patience.bar("node cloud0")
    assert patience.nodes == {"cloud0"}


def test_a_link_that_fell_is_tried_with_multiples_of_what_it_gives_and_growing_patience() -> None:
    state: dict[str, Any] = {}
    links = {"cloud0": {"mbps": 2.0}}
    Cooldown(state, 0.0).fell("cloud0", 20.0)
    assert Cooldown(state, PAUSE.first_s - 1).due(links) == {}
    assert Cooldown(state, PAUSE.first_s).due(links) == {"cloud0": [4.0, 8.0, 16.0, 20.0]}
    assert Cooldown(state, PAUSE.first_s + 1).due(links) == {}
    second = Cooldown(state, 2 * PAUSE.first_s)
    assert second.due({"cloud0": {"mbps": 15.0}}) == {"cloud0": [20.0]}, "no more than it was"
    assert second.fallen["cloud0"]["wait"] == PAUSE.growth**2 * PAUSE.first_s


def test_a_link_that_gives_again_what_it_gave_has_not_fallen() -> None:
    patience = Cooldown({}, 0.0)
    patience.fell("cloud0", 20.0)
    patience.forgive({"cloud0": {"mbps": 10.0}})
    assert patience.fallen
    patience.forgive({"cloud0": {"mbps": 17.0}})
    assert not patience.fallen


def test_late_frames_count_when_they_come_at_several_moments_of_a_minute() -> None:
    state: dict[str, Any] = {}
    for now, late_s in ((100.0, 0.5), (101.0, 0.5), (104.5, 0.25)):
        Cooldown(state, now).note_late(late_s)
    assert Cooldown(state, 105.0).late_s == 0.0, "one moment"
    Cooldown(state, 120.0).note_late(0.5)
    assert Cooldown(state, 120.0).late_s == 1.75
    assert Cooldown(state, 170.0).late_s == 0.0, "the first is forgotten"


def test_a_pause_is_as_long_as_demanded_at_least() -> None:
    state: dict[str, Any] = {}
    Cooldown(state, 100.0).bar("nodes edge0", 60.0)
    assert Cooldown(state, 159.0).is_barred("nodes edge0")
    assert not Cooldown(state, 160.0).is_barred("nodes edge0")
    Cooldown(state, 160.0).bar("nodes edge0", 60.0)
    assert Cooldown(state, 279.0).is_barred("nodes edge0"), "each time longer"
