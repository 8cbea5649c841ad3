"""How a sweep goes on, as Optuna decides it: which values the next task has, and whether a task stops early.

Each decision is made from a study that is built anew of what the product has on record. Nothing of Optuna's is kept, so
another process can go on with the search at any time.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from app.training.model.sweep import EarlyStop, Interval, Point, Values, draw_points, size_of

STARTUP = 5
"""The number of random tasks at the beginning."""
TRIES = 20
"""Tries to find a point that is new."""


class SearcherMissing(Exception):
    """Optuna is not installed."""


@dataclass(frozen=True)
class Trial:
    """A task of a sweep, as a search sees it."""

    point: Point
    has_ended: bool = False
    value: float | None = None
    """Of the metric; None: it has none, or it has not ended."""
    stopped_at: int | None = None
    """The step of the comparison at which it was stopped; None: it was not."""


@dataclass(frozen=True)
class Report:
    """A task has come to a comparison."""

    task_id: str
    step: int
    value: float


def propose_point(
    vary: Mapping[str, Values], trials: Sequence[Trial], *, seed: int, is_lower_better: bool
) -> Point | None:
    """The values of the next task, by a tree-structured Parzen estimator.

    Args:
        trials: in the order of submission.
        seed: the same trials and the same seed give the same values.

    Returns:
        None: there are no others.

    Raises:
        SearcherMissing: Optuna is not installed.
    """
    known = [trial.point for trial in trials]
    if len(known) >= size_of(vary):
        return None
    optuna = _load_optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant_liar is experimental
        sampler = optuna.samplers.TPESampler(seed=seed + len(trials), constant_liar=True, n_startup_trials=STARTUP)
    study = optuna.create_study(sampler=sampler, direction="minimize" if is_lower_better else "maximize")
    distributions = {field: _make_distribution(optuna, values) for field, values in vary.items()}
    for trial in trials:
        study.add_trial(_trial_of(optuna, trial, vary, distributions))
    for _ in range(TRIES):
        params = study.ask(distributions).params
        point = {field: _from_param(values, params[field]) for field, values in vary.items()}
        if point not in known:
            return point
    return next((point for point in draw_points(vary, len(known) + 1, seed) if point not in known), None)


def may_continue(reports: Sequence[Report], rule: EarlyStop, *, is_lower_better: bool) -> bool:
    """Whether the task of the last report goes on, by asynchronous successive halving.

    Args:
        reports: of all tasks of the sweep, in the order in which they were judged.

    Raises:
        SearcherMissing: Optuna is not installed.
    """
    optuna = _load_optuna()
    pruner = optuna.pruners.SuccessiveHalvingPruner(rule.min_steps, rule.reduction_factor)
    study = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(), pruner=pruner, direction="minimize" if is_lower_better else "maximize"
    )
    trials: dict[str, Any] = {}
    does_go_on = True
    for report in reports:
        trial = trials[report.task_id] = trials.get(report.task_id) or study.ask()
        trial.report(report.value, report.step)
        does_go_on = not trial.should_prune()
    return does_go_on


def _load_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise SearcherMissing from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _make_distribution(optuna: Any, values: Values) -> Any:
    """Of a list the places, because its values may be anything."""
    kinds = optuna.distributions
    if not isinstance(values, Interval):
        return kinds.CategoricalDistribution(range(len(values)))
    if values.is_whole:
        return kinds.IntDistribution(int(values.low), int(values.high), log=values.is_log)
    return kinds.FloatDistribution(values.low, values.high, log=values.is_log)


def _trial_of(optuna: Any, trial: Trial, vary: Mapping[str, Values], distributions: Mapping[str, Any]) -> Any:
    states = optuna.trial.TrialState
    facts: dict[str, Any] = {"state": states.RUNNING}
    if trial.has_ended and trial.value is None:
        facts = {"state": states.FAIL}
    elif trial.has_ended and trial.stopped_at is not None:
        facts = {"state": states.PRUNED, "intermediate_values": {trial.stopped_at: trial.value}}
    elif trial.has_ended:
        facts = {"state": states.COMPLETE, "value": trial.value}
    params = {field: _to_param(values, trial.point[field]) for field, values in vary.items()}
    return optuna.trial.create_trial(params=params, distributions=dict(distributions), **facts)


def _to_param(values: Values, value: JsonValue) -> Any:
    return value if isinstance(values, Interval) else list(values).index(value)


def _from_param(values: Values, param: Any) -> JsonValue:
    return values.rounded(param) if isinstance(values, Interval) else values[param]
