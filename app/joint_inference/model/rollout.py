"""A new version of the edge model on its way over the nodes of a service, wave by wave: what comes next. Pure.

The nodes of a wave run the new model and, on some of the same pictures, the former one beside it. The next wave begins
when those of all waves so far are well; as soon as one is not, all go back to the former model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.inference.model_card import ModelCard, version_on
from app.kit.clock import from_text, to_text
from app.kit.text.json_form import JsonForm


class RolloutState(StrEnum):
    PROGRESSING = "progressing"
    PAUSED = "paused"
    """No further wave starts; it can still go back by itself."""
    ROLLED_BACK = "rolled-back"
    """The former model runs on all nodes until the service's model changes."""
    COMPLETE = "complete"
    """The target runs on all nodes."""


UNDER_WAY = (RolloutState.PROGRESSING, RolloutState.PAUSED)


class RolloutAction(StrEnum):
    """What a user can do with a roll-out."""

    PAUSE = "pause"
    RESUME = "resume"
    ROLL_BACK = "roll-back"
    RETRY = "retry"
    """Start again after a roll-back."""
    PROMOTE = "promote"
    """Skip the remaining waves."""


@dataclass(frozen=True)
class RolloutPolicy:
    """The spec's edgeWorker.rollout."""

    waves: tuple[str, ...] = ("1", "10%", "50%", "100%")
    """Number or percentage of the nodes that have the new model after each wave; after the last one, all have it."""
    soak_s: float = 60.0
    """Least duration of a wave, in seconds."""
    least_pictures: int = 50
    """Pictures that a node has to compare before it counts as healthy."""
    most_errors: int = 0
    """Pictures of a node that the new model may fail to answer."""
    most_latency: float = 1.5
    """How many times as long as the former model the new one may take."""
    least_agreement: float = 0.9
    """Least agreement of both models on the same pictures, 0..1."""


@dataclass(frozen=True)
class Comparison:
    """Measurements of both models on the same pictures, as an edge worker reports them."""

    pictures: int = 0
    agreement: float = 1.0
    """Mean over the pictures, 0..1."""
    ms: float = 0.0
    """Mean time of the new model."""
    former_ms: float = 0.0
    """Mean time of the former model."""
    errors: int = 0
    """Pictures that the new model could not answer."""

    @property
    def latency(self) -> float:
        return self.ms / self.former_ms if self.former_ms > 0 else 1.0


COMPARISON = JsonForm(Comparison)


@dataclass(frozen=True)
class NodeHealth:
    """What a roll-out has to know about an edge node of the service."""

    node: str
    is_online: bool
    sha256: str = ""
    """Of the running model; empty if unknown."""
    failure: str = ""
    """Why the worker keeps ending; empty if it does not."""
    comparison: Comparison = Comparison()


@dataclass(frozen=True)
class Rollout:
    """The progress of a service from one model to another."""

    former: ModelCard
    target: ModelCard
    state: RolloutState = RolloutState.COMPLETE
    wave: int = 0
    """Number of the current wave, from 0."""
    wave_at: str = ""
    """When it started, text in ISO 8601."""
    nodes: tuple[str, ...] = ()
    """Nodes with the target, in the order in which they got it."""
    reason: str = ""
    """Why it went back."""

    @property
    def is_under_way(self) -> bool:
        return self.state in UNDER_WAY

    def model_of(self, node: str) -> ModelCard:
        """Returns the model that this node has to run."""
        if self.state is RolloutState.COMPLETE:
            return self.target
        return self.target if self.is_under_way and node in self.nodes else self.former

    def compared_on(self, node: str) -> ModelCard | None:
        """Returns the model with which this node compares its own; None for none."""
        return self.former if self.is_under_way and node in self.nodes else None


ROLLOUT = JsonForm(Rollout)


def policy_of(spec: Mapping[str, Any]) -> RolloutPolicy | None:
    """Reads a validated spec; None: a new model goes to all nodes at once."""
    raw = spec["edgeWorker"].get("rollout")
    if raw is None:
        return None
    default = RolloutPolicy()
    return RolloutPolicy(
        waves=tuple(raw.get("waves") or default.waves),
        soak_s=float(raw.get("soakSeconds", default.soak_s)),
        least_pictures=int(raw.get("minPictures", default.least_pictures)),
        most_errors=int(raw.get("maxErrors", default.most_errors)),
        most_latency=float(raw.get("maxLatencyRatio", default.most_latency)),
        least_agreement=float(raw.get("minAgreement", default.least_agreement)),
    )


def size_of(wave: str, count: int) -> int:
    """Returns how many of `count` nodes have the target after a wave.

    Raises:
        ValueError: The wave is not valid.
    """
    is_share = wave.endswith("%")
    amount = float(wave[:-1]) if is_share else int(wave)
    if not (0 < amount <= 100 if is_share else amount >= 1):
        raise ValueError(f"{wave!r} is no wave")
    return min(math.ceil(amount * count / 100) if is_share else int(amount), count)


def advance(
    rollout: Rollout | None, policy: RolloutPolicy, model: ModelCard, nodes: Sequence[NodeHealth], now: datetime
) -> Rollout:
    """What the roll-out is now.

    Args:
        rollout: as it was; None: the service has had none.
        model: what the service's name of the edge model means now.
        nodes: all that the service selects.
    """
    if rollout is None:
        return Rollout(model, model)
    runs = rollout.target if rollout.state is RolloutState.COMPLETE else rollout.former
    if _is_same(model, rollout.target) and rollout.state in (RolloutState.COMPLETE, RolloutState.ROLLED_BACK):
        return rollout
    if _is_same(model, runs):
        return Rollout(model, model)
    if not _is_same(model, rollout.target):
        rollout = Rollout(runs, model, RolloutState.PROGRESSING)
        return _begin_wave(rollout, policy, 0, nodes, now)
    return _continue(rollout, policy, nodes, now)


def acted(rollout: Rollout, action: RolloutAction) -> Rollout | None:
    """Returns the roll-out after a user's action; None if this is not possible now."""
    state = rollout.state
    if action is RolloutAction.PAUSE and state is RolloutState.PROGRESSING:
        return replace(rollout, state=RolloutState.PAUSED)
    if action is RolloutAction.RESUME and state is RolloutState.PAUSED:
        return replace(rollout, state=RolloutState.PROGRESSING)
    if action is RolloutAction.ROLL_BACK and rollout.is_under_way:
        return replace(rollout, state=RolloutState.ROLLED_BACK, reason="Its user took it back.")
    if action is RolloutAction.RETRY and state is RolloutState.ROLLED_BACK:
        return Rollout(rollout.former, rollout.target, RolloutState.PROGRESSING)
    if action is RolloutAction.PROMOTE and state is not RolloutState.COMPLETE:
        return Rollout(rollout.target, rollout.target)
    return None


def _continue(rollout: Rollout, policy: RolloutPolicy, nodes: Sequence[NodeHealth], now: datetime) -> Rollout:
    changed = [node for node in nodes if node.node in rollout.nodes]
    problem = next((text for node in changed if (text := problem_of(node, rollout, policy))), "")
    if problem:
        return replace(rollout, state=RolloutState.ROLLED_BACK, reason=problem)
    if rollout.state is RolloutState.PAUSED:
        return rollout
    if not rollout.nodes:
        return _begin_wave(rollout, policy, 0, nodes, now)
    is_soaked = (now - from_text(rollout.wave_at)).total_seconds() >= policy.soak_s
    online = [node for node in changed if node.is_online]
    if not is_soaked or not online or not all(is_well(node, rollout, policy) for node in online):
        return rollout
    return _begin_wave(rollout, policy, rollout.wave + 1, nodes, now)


def _begin_wave(
    rollout: Rollout, policy: RolloutPolicy, wave: int, nodes: Sequence[NodeHealth], now: datetime
) -> Rollout:
    """The wave of this number, or one behind it that has further nodes; after the last the roll-out is complete. Nodes
    that are connected come first."""
    names = [node.node for node in nodes]
    kept = tuple(name for name in rollout.nodes if name in names)
    waiting = sorted(
        (node for node in nodes if node.node not in kept), key=lambda node: (not node.is_online, node.node)
    )
    for number in range(wave, len(policy.waves)):
        further = size_of(policy.waves[number], len(names)) - len(kept)
        if further > 0:
            added = tuple(node.node for node in waiting[:further])
            return replace(rollout, wave=number, wave_at=to_text(now), nodes=kept + added)
    return Rollout(rollout.target, rollout.target) if not waiting else _finish(rollout, policy, kept, waiting, now)


def _finish(
    rollout: Rollout, policy: RolloutPolicy, kept: tuple[str, ...], waiting: Sequence[NodeHealth], now: datetime
) -> Rollout:
    """The waves that are named end before all nodes have the target, or nodes have come since: one more."""
    nodes = kept + tuple(node.node for node in waiting)
    return replace(rollout, wave=len(policy.waves), wave_at=to_text(now), nodes=nodes)


def is_well(node: NodeHealth, rollout: Rollout, policy: RolloutPolicy) -> bool:
    """Returns whether a node has run the target long enough to be judged, without a problem."""
    runs_target = node.sha256 == rollout.target.sha256
    return runs_target and node.comparison.pictures >= policy.least_pictures and not problem_of(node, rollout, policy)


def problem_of(node: NodeHealth, rollout: Rollout, policy: RolloutPolicy) -> str:
    """Returns the problem of the target on a node; empty if there is none so far."""
    if node.failure:
        return f"{node.node}: {node.failure}"
    if node.sha256 != rollout.target.sha256:
        return ""
    seen, name = node.comparison, node.node
    if seen.errors > policy.most_errors:
        return f"{name}: the new model could not answer {seen.errors} pictures, of which {policy.most_errors} may be."
    return _explain_difference(name, seen, policy) if seen.pictures >= max(1, policy.least_pictures) else ""


def _explain_difference(name: str, seen: Comparison, policy: RolloutPolicy) -> str:
    if seen.agreement < policy.least_agreement:
        return (
            f"{name}: on {seen.pictures} pictures the agreement with the former model is {seen.agreement:.3f}, "
            f"and {policy.least_agreement:g} is needed."
        )
    if seen.latency > policy.most_latency:
        return (
            f"{name}: the new model takes {seen.ms:.1f} ms for a picture, {seen.latency:.2f} times as long as the "
            f"former one, and {policy.most_latency:g} times is allowed."
        )
    return ""


def _is_same(one: ModelCard, other: ModelCard) -> bool:
    return one.sha256 == other.sha256


def change_text(rollout: Rollout) -> str:
    """Describes the change: `version 2 of 'faces' to version 3`"""
    (name, former), (_, target) = version_on(rollout.former.name), version_on(rollout.target.name)
    return f"{name!r} from version {former} to version {target}"
