"""A candidate counts as the worse of two models: one whose ranges do not know the pictures, and the one that would be
delivered, whose ranges do."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.goals import Goal, parse_goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.budget import Budget
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search.acceptance import lower_of
from app.conversion.toolchains.host.search.basis import basis_of
from app.conversion.toolchains.host.search.candidate_builder import CandidateBuilder
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.score import Score
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.search.trials import Trials
from app.conversion.toolchains.journal import Journal
from tests.harness.models import small
from tests.unit.conversion.toolchains.host.search.test_search import Picture

SIDE, CALIBRATING, CHOOSING, FACTOR = 12, 6, 3, 40.0
SPLIT = Split((0,) * CALIBRATING + (1,) * CHOOSING, 2, (1,), None)


def network(share: float) -> Any:
    """Two layers; the second one reads so much of the first one's last channel."""
    first = np.random.default_rng(7).random((3, 3, 1, 1), np.float32)
    first[:2, 2] = first[2, :2] = 0.0
    second = np.full((1, 3, 1, 1), 0.5, np.float32)
    second[:, 2] *= share
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv1"),
        helper.make_node("Conv", ["a", "w2"], ["y"], "conv2"),
    ]
    weights = [numpy_helper.from_array(values, name) for name, values in (("w1", first), ("w2", second))]
    ends = [small.value("x", (1, 3, SIDE, SIDE))], [small.value("y", (1, 1, SIDE, SIDE))]
    return onnx.shape_inference.infer_shapes(small.model(nodes, *ends, weights))


def pictures() -> list[Picture]:
    """Those that choose are much brighter in the last channel."""
    drawn = np.random.default_rng(3).random((CALIBRATING + CHOOSING, 1, 3, SIDE, SIDE), np.float32)
    drawn[CALIBRATING:, :, 2] *= FACTOR
    return [Picture(f"p{place}", {"x": array}) for place, array in enumerate(drawn)]


def tried_beside(share: float, choice: Choice, goal: str) -> tuple[Trials, dict[str, float]]:
    """Returns what tries candidates, and the mean SNR of both models of this one."""
    model, samples, options = network(share), pictures(), HostQuantization()
    judge = Judge(model, samples, SPLIT, threads=1, meter_of=lambda: None)
    known = basis_of(model, plan(model, options), samples, SPLIT, options, threads=1, step=lambda *_: None)
    builder = CandidateBuilder(known, SPLIT, judge.examples, options, 1)
    trials = Trials(builder, judge, SPLIT, parse_goal(goal), Journal(None, "", Budget(None)), print)
    levels = {
        name: judge.judge(lambda _, parts=parts: builder.built(choice, parts), (1,)).score.mean_db
        for name, parts in (("held out", (0,)), ("delivered", (0, 1)))
    }
    return trials, levels


@pytest.mark.parametrize(("share", "lower"), [(0.0, "delivered"), (1.0, "held out")])
def test_the_worse_of_both_models_counts(share: float, lower: str) -> None:
    """What nothing reads may be cut off, and costs only levels; what is read may not."""
    choice = Choice("minmax")
    trials, levels = tried_beside(share, choice, "snr>=20")
    assert min(levels, key=levels.__getitem__) == lower and max(levels.values()) > min(levels.values()) + 10
    assert trials.attempt(choice).score.mean_db == pytest.approx(levels[lower])


@pytest.mark.parametrize(("goal", "counts"), [("snr>=20", "delivered"), ("snr>=90", "held out")])
def test_of_candidates_in_16_bits_only_those_that_hold_the_goal_are_judged_as_delivered(goal: str, counts: str) -> None:
    choice = Choice("minmax", wide=frozenset({"y"}))
    trials, levels = tried_beside(0.0, choice, goal)
    assert levels["delivered"] < levels["held out"] - 5
    assert trials.attempt(choice).score.mean_db == pytest.approx(levels[counts])


@pytest.mark.parametrize(
    ("goal", "drops", "lower"), [("snr>=20", (0.0, 9.0), 0), ("drop<=1%", (0.0, 9.0), 1), ("drop<=1%", (None, None), 0)]
)
def test_where_the_task_is_the_goal_and_known_its_loss_tells_which_is_worse(
    goal: str, drops: tuple[float | None, ...], lower: int
) -> None:
    rows = [[10.0, 11.0, 12.0], [30.0, 31.0, 32.0]]
    scores = [
        Score({"y": values}, drops=[] if drop is None else [drop]) for values, drop in zip(rows, drops, strict=True)
    ]
    parsed: Goal = parse_goal(goal)
    assert lower_of(parsed, *scores) is lower_of(parsed, *reversed(scores)) is scores[lower]
