"""A new model on its way over the nodes: when the next wave begins, and when all go back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.inference.model_card import Format, ModelCard
from app.joint_inference.model.rollout import (
    ROLLOUT,
    Comparison,
    NodeHealth,
    Rollout,
    RolloutAction,
    RolloutPolicy,
    RolloutState,
    acted,
    advance,
    policy_of,
    size_of,
)
from app.kit.clock import to_text

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
ONE, TWO, THREE = (ModelCard(f"faces@{n}", Format.ONNX, str(n) * 64, 1) for n in (1, 2, 3))
POLICY = RolloutPolicy(waves=("1", "50%", "100%"), soak_s=60, least_pictures=10)
WELL = Comparison(pictures=10, agreement=0.97, ms=11.0, former_ms=10.0)
NAMES = ("a", "b", "c", "d")


def nodes(*changed: str, seen: Comparison = WELL, model: ModelCard = TWO, **fields: Any) -> list[NodeHealth]:
    """Those that are named run the target."""
    return [
        NodeHealth(name, True, model.sha256, comparison=seen, **fields)
        if name in changed
        else NodeHealth(name, True, ONE.sha256)
        for name in NAMES
    ]


def begun(**fields: Any) -> Rollout:
    """In its first wave, which began long enough ago."""
    rollout = advance(Rollout(ONE, ONE), POLICY, TWO, nodes(), NOW - timedelta(seconds=60))
    return replace(rollout, **fields)


def test_what_a_service_begins_with_is_rolled_out_nowhere() -> None:
    rollout = advance(None, POLICY, ONE, nodes(), NOW)
    assert (rollout.state, rollout.model_of("a")) == (RolloutState.COMPLETE, ONE)
    assert advance(rollout, POLICY, ONE, nodes(), NOW) is rollout


def test_another_model_comes_in_waves_and_is_compared_on_the_nodes_that_have_it() -> None:
    rollout = begun()
    assert (rollout.state, rollout.wave, rollout.nodes) == (RolloutState.PROGRESSING, 0, ("a",))
    assert (rollout.model_of("a"), rollout.compared_on("a")) == (TWO, ONE)
    assert (rollout.model_of("b"), rollout.compared_on("b")) == (ONE, None)
    second = advance(rollout, POLICY, TWO, nodes("a"), NOW)
    assert (second.wave, second.nodes, second.wave_at) == (1, ("a", "b"), to_text(NOW))
    assert advance(second, POLICY, TWO, nodes("a", "b"), NOW + timedelta(seconds=59)) == second, "it lasts a minute"
    third = advance(second, POLICY, TWO, nodes("a", "b"), NOW + timedelta(seconds=60))
    assert (third.wave, third.nodes) == (2, NAMES)
    last = advance(third, POLICY, TWO, nodes(*NAMES), NOW + timedelta(seconds=120))
    assert (last.state, last.former, last.target, last.compared_on("a")) == (RolloutState.COMPLETE, TWO, TWO, None)


@pytest.mark.parametrize(
    "still",
    [
        nodes(),
        nodes("a", seen=replace(WELL, pictures=9)),
        [replace(node, is_online=False) for node in nodes("a")],
    ],
    ids=["it runs the former model", "too few pictures", "it is away"],
)
def test_a_wave_waits_until_its_nodes_are_known_to_be_well(still: list[NodeHealth]) -> None:
    assert advance(begun(), POLICY, TWO, still, NOW) == begun()


def test_a_node_that_is_away_does_not_hold_up_the_others() -> None:
    rollout = begun(wave=1, nodes=("a", "b"))
    seen = [replace(node, is_online=node.node != "b") for node in nodes("a")]
    assert advance(rollout, POLICY, TWO, seen, NOW).wave == 2


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (replace(WELL, errors=1), "could not answer 1 pictures, of which 0 may be"),
        (replace(WELL, agreement=0.89), "the agreement with the former model is 0.890, and 0.9 is needed"),
        (replace(WELL, ms=15.1), "takes 15.1 ms for a picture, 1.51 times as long"),
    ],
)
@pytest.mark.parametrize("state", [RolloutState.PROGRESSING, RolloutState.PAUSED])
def test_a_node_that_is_not_well_takes_all_back(seen: Comparison, why: str, state: RolloutState) -> None:
    rollout = advance(begun(state=state), POLICY, TWO, nodes("a", seen=seen), NOW - timedelta(seconds=59))
    assert rollout.state is RolloutState.ROLLED_BACK
    assert why in rollout.reason and rollout.reason.startswith("a: ")
    assert (rollout.model_of("a"), rollout.compared_on("a")) == (ONE, None)
    assert advance(rollout, POLICY, TWO, nodes(), NOW) == rollout, "and it stays so"


def test_a_worker_that_ends_takes_all_back_but_not_one_that_never_had_the_new_model() -> None:
    ended = "the worker has ended with exit code 1: Crashed"
    assert advance(begun(), POLICY, TWO, nodes("a", failure=ended), NOW).reason == f"a: {ended}"
    others = [replace(node, failure=ended if node.node == "d" else "") for node in nodes("a")]
    assert advance(begun(), POLICY, TWO, others, NOW).wave == 1


def test_after_a_roll_back_a_third_model_is_rolled_out_from_the_first() -> None:
    back = begun(state=RolloutState.ROLLED_BACK, reason="a: no")
    third = advance(back, POLICY, THREE, nodes(), NOW)
    assert (third.state, third.former, third.target, third.nodes) == (RolloutState.PROGRESSING, ONE, THREE, ("a",))
    assert advance(back, POLICY, ONE, nodes(), NOW) == Rollout(ONE, ONE), "the tag was set back"


def test_a_tag_that_moves_on_or_back_meanwhile_begins_anew_or_ends_it() -> None:
    rollout = begun(wave=1, nodes=("a", "b"))
    third = advance(rollout, POLICY, THREE, nodes("a", "b"), NOW)
    assert (third.former, third.target, third.wave, third.nodes) == (ONE, THREE, 0, ("a",))
    assert advance(rollout, POLICY, ONE, nodes("a", "b"), NOW) == Rollout(ONE, ONE)


def test_nodes_that_are_connected_come_first_and_one_that_has_come_since_last() -> None:
    seen = [replace(node, is_online=node.node not in ("a", "b")) for node in nodes()]
    assert advance(Rollout(ONE, ONE), POLICY, TWO, seen, NOW).nodes == ("c",)
    third = begun(wave=2, nodes=NAMES)
    more = [*nodes(*NAMES), NodeHealth("e", True, ONE.sha256)]
    extra = advance(third, POLICY, TWO, more, NOW)
    assert (extra.state, extra.nodes) == (RolloutState.PROGRESSING, (*NAMES, "e"))


def test_what_a_user_may_do_with_it() -> None:
    rollout = begun()
    paused = acted(rollout, RolloutAction.PAUSE)
    assert paused is not None and paused.state is RolloutState.PAUSED
    assert advance(paused, POLICY, TWO, nodes("a"), NOW) == paused, "no further wave"
    assert acted(paused, RolloutAction.RESUME) == rollout
    back = acted(rollout, RolloutAction.ROLL_BACK)
    assert back is not None and back.model_of("a") == ONE
    again = acted(back, RolloutAction.RETRY)
    assert again is not None and advance(again, POLICY, TWO, nodes(), NOW).nodes == ("a",)
    assert acted(rollout, RolloutAction.PROMOTE) == Rollout(TWO, TWO)
    assert [acted(Rollout(ONE, ONE), action) for action in RolloutAction] == [None] * len(RolloutAction)
    assert acted(rollout, RolloutAction.RESUME) is None and acted(back, RolloutAction.PAUSE) is None


def test_it_is_stored_and_read_again() -> None:
    assert ROLLOUT.read(ROLLOUT.write(begun())) == begun()


def test_a_specification_says_when_a_node_is_well() -> None:
    assert policy_of({"edgeWorker": {}}) is None
    assert policy_of({"edgeWorker": {"rollout": {}}}) == RolloutPolicy()
    raw = {"waves": ["2", "100%"], "soakSeconds": 5, "minPictures": 7, "maxErrors": 1, "maxLatencyRatio": "2"}
    policy = policy_of({"edgeWorker": {"rollout": {**raw, "minAgreement": "0.5"}}})
    assert policy == RolloutPolicy(("2", "100%"), 5.0, 7, 1, 2.0, 0.5)


@pytest.mark.parametrize(("wave", "size"), [("1", 1), ("10%", 1), ("50%", 4), ("100%", 7), ("20", 7), ("0.1%", 1)])
def test_a_wave_is_a_number_of_nodes_or_a_share(wave: str, size: int) -> None:
    assert size_of(wave, 7) == size


@pytest.mark.parametrize("wave", ["", "0", "-1", "0%", "101%", "half", "1.5", "nan%", "inf%"])
def test_what_is_no_wave_is_refused(wave: str) -> None:
    with pytest.raises(ValueError, match=r"no wave|invalid literal|could not convert"):
        size_of(wave, 7)
