"""Which plans there are to choose from, and which of them is the best. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.video.model.plan import Encoder, VideoConf
from app.video.scheduling.contract import DagInfo, GeneratorInfo, ResourceInfo
from app.video.scheduling.cuts import mappings
from app.video.scheduling.placement import HOST, nodes_key
from app.video.scheduling.predictor import BOUNDLESS_FPS, Prediction, Predictor
from app.video.scheduling.profile_model import QUALITY, QUALITY_OF_MODEL, compute_kept_quality
from app.video.scheduling.source_limits import sizes_within

SKIPS = (0, 1, 2, 4, 9)
MARGIN = 0.8
"""A new plan may be predicted to take at most this share of the allowed delay."""
LOAD = 0.75
"""A new plan may use at most this share of the capacity of a node or link: times scatter, and the runner
computes, too."""
EASE = 0.45
"""Of the allowed delay: a plan that is predicted to take at most this share is in time also where frames take twice as
long as usual."""
STEP = 0.005
"""Qualities that differ by less count as equal."""
SENDING_GAIN = 0.018
"""Of quality, 0..1: a plan that sends frames to other nodes must be better by more than this than one that sends none.
A plan that sends none depends on no link. One that sends none and is not at ease must be better by as much."""
LINK_COST = 0.03
"""Of quality, 0..1: what a plan must gain for using a whole link. The less of it a plan uses, the fewer frames are late
when it slows down."""
USUAL_FPS, MAX_FPS = 24.0, 30.0
LEAST_FPS = 1e-3
WAITING = 4
"""Frames that wait in a runner that does not keep up: its queue is full."""
MAX_PREDICTIONS = 260
ROLES = frozenset({"edge", "cloud"})


@dataclass(frozen=True)
class SearchGoal:
    """The goal of a plan."""

    hi: float
    """The longest delay allowed, seconds."""
    quality: float
    """The lowest quality allowed, 0..1."""
    fps: float
    """Frames a second."""
    tail: float = 1.0
    """p95 of the delay relative to the predicted one: see PlanMemory."""


@dataclass(frozen=True)
class PlanCandidate:
    """A plan compared with the goal."""

    prediction: Prediction
    in_time: bool
    """Its delay is allowed, with the margin."""
    keeps_up: bool
    """It processes as many frames as it plans to."""
    is_good: bool
    """Its quality is allowed."""
    at_ease: bool
    """Its delay is at most EASE of the allowed one."""

    @property
    def conf(self) -> VideoConf:
        return self.prediction.video_conf

    @property
    def key(self) -> str:
        return key_of(self.prediction.video_conf, self.prediction.flow_mapping)

    @property
    def sends(self) -> bool:
        """Whether it needs a node other than the host."""
        return is_away(self.prediction.flow_mapping)

    @property
    def nodes(self) -> str:
        """The key of its nodes."""
        return nodes_key(self.prediction.flow_mapping)

    @property
    def worth(self) -> float:
        """Its quality, minus the cost of the share of the link that it uses, or of depending on a host that is not at
        ease."""
        if self.sends:
            return self.prediction.quality - LINK_COST * min(1.0, self.prediction.link_s * self.conf.processed_fps)
        return self.prediction.quality - (0.0 if self.at_ease else SENDING_GAIN)

    @property
    def fits(self) -> bool:
        return self.in_time and self.keeps_up

    @property
    def rank(self) -> tuple[float, ...]:
        """Greater is better. The fastest is the best of plans that do not fit, and of equal ones."""
        prediction = self.prediction
        if not self.fits:
            return (0.0, float(self.in_time), float(self.is_good), -prediction.delay_s, prediction.fps)
        return (
            1.0,
            float(self.is_good),
            round(self.worth / STEP),
            round(prediction.fps),
            -round(prediction.bytes_up / 2000),
            -prediction.delay_s,
        )


def best_of(all_candidates: Collection[PlanCandidate]) -> PlanCandidate:
    """The one with the highest rank. If one that sends nothing is at ease, only those that gain more than SENDING_GAIN
    are better.

    Args:
        all_candidates: Not empty.
    """
    here = [one for one in all_candidates if one.fits and one.at_ease and not one.sends]
    if not here:
        return max(all_candidates, key=lambda one: one.rank)
    best = max(here, key=lambda one: one.rank)
    least = best.prediction.quality + SENDING_GAIN
    paying = [
        one for one in all_candidates if not one.sends or one.is_good > best.is_good or one.prediction.quality > least
    ]
    return max(paying, key=lambda one: one.rank)


def is_away(mapping: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a stage runs on a node other than the host."""
    return any(place["node_role"] != HOST for place in mapping.values())


def key_of(conf: VideoConf, mapping: Mapping[str, Mapping[str, object]]) -> str:
    places = places_key(mapping)
    return f"{conf.resolution}/{conf.fps:g}/{conf.nskip}/{conf.ntracking}/{conf.encoder.value}/{places}"


def places_key(mapping: Mapping[str, Mapping[str, object]]) -> str:
    """The models and their nodes."""
    return ",".join(
        f"{stage}:{place['model_id']}@{place.get('node') or place['node_ip']}"
        for stage, place in sorted(mapping.items())
    )


def compute_demanded_fps(generator: GeneratorInfo | None) -> float:
    return min(MAX_FPS, float((generator or {}).get("fps") or USUAL_FPS))


def assess(
    prediction: Prediction, goal: SearchGoal, *, margin: float = MARGIN, keeps_up: bool | None = None
) -> PlanCandidate:
    """Compares a plan with the goal. One that does not keep up always has frames waiting before it.

    Args:
        margin: The share of the allowed delay that it may take.
        keeps_up: If that is already known.
    """
    conf = prediction.video_conf
    if keeps_up is None:
        keeps_up = prediction.fps >= min(goal.fps, conf.fps) * 0.999
    if not keeps_up:
        waiting = WAITING * (1 + conf.nskip + conf.ntracking) / max(prediction.fps, LEAST_FPS)
        prediction = replace(prediction, delay_s=prediction.delay_s + waiting)
    return PlanCandidate(
        prediction,
        in_time=prediction.delay_s * goal.tail <= goal.hi * margin,
        keeps_up=keeps_up,
        is_good=prediction.quality >= goal.quality,
        at_ease=prediction.delay_s <= goal.hi * EASE,
    )


def candidates(
    predictor: Predictor,
    dag: DagInfo,
    resources: ResourceInfo,
    goal: SearchGoal,
    generator: GeneratorInfo | None,
    barred: frozenset[str] = frozenset(),
    is_barred: Callable[[PlanCandidate], bool] = lambda _: False,
) -> Iterator[PlanCandidate]:
    """For each size, model, cut and encoder the plan that skips as few frames as necessary, the better ones first.
    Plans that cannot be better than a fitting one are omitted; plans that send nothing are compared with each other.

    Args:
        barred: Names of nodes that must not be used.
        is_barred: Whether a plan must not be used; no other one is omitted for it.
    """
    sizes, best, best_here = _list_sizes(predictor, dag, generator), 0.0, 0.0
    most = max(2, MAX_PREDICTIONS // (2 * len(sizes)))
    cuts_of = {model: _iterate_cuts(dag, resources, model, barred)[:most] for model in _list_models(dag)}
    for bound, resolution, model in sizes:
        for mapping in cuts_of[model]:
            if bound < (best if is_away(mapping) else best_here) - STEP:
                continue
            for encoder in _list_encoders(mapping):
                candidate = _find_sustainable(predictor, VideoConf(resolution, goal.fps, 0, 0, encoder), mapping, goal)
                if is_barred(candidate):
                    continue
                if candidate.fits:
                    best = max(best, candidate.prediction.quality)
                    best_here = best_here if candidate.sends else max(best_here, candidate.prediction.quality)
                yield candidate


def _iterate_cuts(
    dag: DagInfo, resources: ResourceInfo, model: int, barred: frozenset[str]
) -> Sequence[Mapping[str, Mapping[str, object]]]:
    """Mappings of stages to nodes, those with the fewest nodes first."""
    cuts = sorted(mappings(dag, resources, model, ROLES), key=_count_nodes)
    usable = [cut for cut in cuts if not barred & {str(place["node"]) for place in cut.values()}]
    return usable or cuts


def _count_nodes(mapping: Mapping[str, Mapping[str, object]]) -> int:
    return len({place["node"] for place in mapping.values()})


def _list_models(dag: DagInfo) -> range:
    return range(max(1, *(facts["n_models"] for facts in dag["stages"].values()), 1))


def _list_sizes(predictor: Predictor, dag: DagInfo, generator: GeneratorInfo | None) -> list[tuple[float, str, int]]:
    """(quality if every frame is processed, resolution, model_id), the best first; no size above the source's."""
    sizes = []
    for name in sizes_within((generator or {}).get("height") or 0):
        for model in _list_models(dag):
            qualities = [
                predictor.knowledge.quality(stage, min(model, max(0, facts["n_models"] - 1)), name)[0]
                for stage, facts in dag["stages"].items()
            ] or [QUALITY[name] * QUALITY_OF_MODEL[0]]
            sizes.append((min(qualities), name, model))
    return sorted(sizes, key=lambda size: -size[0])


def _list_encoders(mapping: Mapping[str, Mapping[str, Any]]) -> Sequence[Encoder]:
    return (Encoder.JPEG, Encoder.H264) if is_away(mapping) else (Encoder.JPEG,)


def _find_sustainable(
    predictor: Predictor, conf: VideoConf, mapping: Mapping[str, Mapping[str, object]], goal: SearchGoal
) -> PlanCandidate:
    """With the fewest frames omitted at which it keeps up. Delay and bytes of a frame do not depend on these."""
    whole = predictor.predict(replace(conf, fps=BOUNDLESS_FPS), mapping)
    capacity = whole.fps * LOAD
    nskip = next((skip for skip in SKIPS if capacity * (1 + skip) >= conf.fps), SKIPS[-1])
    prediction = replace(
        whole,
        video_conf=replace(conf, nskip=nskip),
        fps=min(conf.fps, whole.fps * (1 + nskip)),
        quality=whole.quality * compute_kept_quality(nskip, 0),
    )
    return assess(prediction, goal, keeps_up=capacity * (1 + nskip) >= conf.fps)
