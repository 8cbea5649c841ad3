"""Which checkpoint is the best, and which ones go."""

from __future__ import annotations

import json

import pytest

from app.training.model.checkpoint_order import CheckpointRanking, rank, superfluous, usual_metric
from app.training.model.learning_curve import Curve, LearningCurves


def told(**by_name: dict[int, float]) -> dict[str, Curve]:
    curves = LearningCurves()
    for name, values in by_name.items():
        for step, value in values.items():
            curves.feed(json.dumps({"step": step, name.replace("__", "/"): value}).encode() + b"\n")
    return curves.curves


def test_a_loss_is_best_where_it_is_least_and_a_reward_where_it_is_highest() -> None:
    curves = told(val__loss={10: 3, 20: 1, 30: 2}, reward={10: 1, 20: 2, 30: 3})
    assert rank([10, 20, 30], curves).best == 20
    assert rank([10, 20, 30], curves, "reward").best == 30


def test_of_equals_the_later_is_the_better() -> None:
    assert rank([10, 20], told(loss={10: 1, 20: 1})).order == [20, 10]


def test_a_step_at_which_nothing_was_told_is_not_judged() -> None:
    ranking = rank([10, 15, 20], told(val__loss={10: 3, 20: 1}))
    assert (ranking.values, ranking.order) == ({10: 3, 20: 1}, [20, 10])


def test_one_alone_is_not_the_best_of_anything() -> None:
    assert rank([10], told(loss={10: 1})).best is None


def test_what_was_done_again_counts_as_it_ended() -> None:
    curves = LearningCurves()
    curves.feed(b'{"step": 10, "loss": 1}\n{"step": 10, "loss": 3}\n{"step": 20, "loss": 2}\n')
    assert rank([10, 20], curves.curves).best == 20


@pytest.mark.parametrize(
    ("names", "usual"),
    [
        (["train/loss", "val/loss", "critic/rewards/mean"], "val/loss"),
        (["val-aux/a/reward/std@4", "val-core/openai/gsm8k/reward/mean@1"], "val-core/openai/gsm8k/reward/mean@1"),
        (["critic/vf_loss", "critic/rewards/mean", "actor/lr"], "critic/rewards/mean"),
        (["actor/lr", "train/loss"], "train/loss"),
        (["actor/lr", "actor/pg_loss"], None),
        ([], None),
    ],
)
def test_validation_judges_before_rewards_and_these_before_the_loss(names: list[str], usual: str | None) -> None:
    assert usual_metric(names) == usual


RANKING = CheckpointRanking("loss", {10: 1, 20: 3, 30: 2, 40: 4}, [10, 30, 20, 40])


@pytest.mark.parametrize(
    ("last", "best", "complete", "gone"),
    [
        (1, 1, 40, [20, 30]),
        (2, 1, 40, [20]),
        (1, 2, 40, [20]),
        (1, 1, 30, [20]),  # the one of step 40 is being written
        (4, 1, 40, []),
    ],
)
def test_neither_the_last_nor_the_best_go(last: int, best: int, complete: int, gone: list[int]) -> None:
    assert superfluous([10, 20, 30, 40], RANKING, last=last, best=best, complete=complete) == gone


def test_one_that_is_not_judged_goes_before_those_that_are_and_none_goes_before_any_is_judged() -> None:
    assert superfluous([10, 15, 30], RANKING, last=1, best=1, complete=30) == [15]
    assert superfluous([10, 15, 30], CheckpointRanking("loss"), last=1, best=1, complete=30) == []
