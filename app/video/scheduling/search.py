"""Which plans there are to choose from, and which of them is the best. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.video.model.plan import RESOLUTIONS, Encoder, VideoConf
from app.video.scheduling.contract import DagInfo, GeneratorInfo, ResourceInfo
from app.video.scheduling.predictor import BOUNDLESS_FPS, HOST, Prediction, Predictor, mappings
from app.video.scheduling.profile_model import QUALITY, QUALITY_OF_MODEL, kept

SKIPS = (0, 1, 2, 4, 9)
MARGIN = 0.8
"""Share of the allowed delay that a new plan is predicted to take at most."""
LOAD = 0.85
"""Share of what a node or link could do that is planned with."""
STEP = 0.004
"""Qualities that differ by less are the same."""
USUAL_FPS, MAX_FPS = 24.0, 30.0
LEAST_FPS = 1e-3
WAITING = 4
"""Frames that wait in a runner that does not keep up: as many as it has room for."""
MAX_PREDICTIONS = 260
ROLES = frozenset({"edge", "cloud"})


@dataclass(frozen=True)
class SearchGoal:
    """hi: seconds; quality: wanted at least; fps: frames a second; tail: see learning.Memory."""

    hi: float
    quality: float
    fps: float
    tail: float = 1.0


@dataclass(frozen=True)
class Choice:
    """A plan beside the wish. in_time: its delay fits with the margin; keeps_up: so does its rate."""

    prediction: Prediction
    in_time: bool
    keeps_up: bool
    is_good: bool

    @property
    def conf(self) -> VideoConf:
        return self.prediction.video_conf

    @property
    def key(self) -> str:
        return key_of(self.prediction.video_conf, self.prediction.flow_mapping)

    @property
    def fits(self) -> bool:
        return self.in_time and self.keeps_up

    @property
    def rank(self) -> tuple[float, ...]:
        """Greater is better. Where nothing fits, what is quickest."""
        one = self.prediction
        if not self.fits:
            return (0.0, float(self.in_time), float(self.is_good), -one.delay_s, one.fps)
        return (1.0, float(self.is_good), round(one.quality / STEP), round(one.fps), -round(one.bytes_up / 2000))


def key_of(conf: VideoConf, mapping: Mapping[str, Mapping[str, object]]) -> str:
    places = ",".join(
        f"{stage}:{place['model_id']}@{place.get('node') or place['node_ip']}"
        for stage, place in sorted(mapping.items())
    )
    return f"{conf.resolution}/{conf.fps:g}/{conf.nskip}/{conf.ntracking}/{conf.encoder.value}/{places}"


def wanted_fps(generator: GeneratorInfo | None) -> float:
    return min(MAX_FPS, float((generator or {}).get("fps") or USUAL_FPS))


def judged(prediction: Prediction, wish: SearchGoal, *, margin: float = MARGIN, keeps_up: bool | None = None) -> Choice:
    """keeps_up: where that has been found out. What does not keep up has frames waiting before it all the time."""
    conf = prediction.video_conf
    if keeps_up is None:
        keeps_up = prediction.fps >= min(wish.fps, conf.fps) * 0.999
    if not keeps_up:
        waiting = WAITING * (1 + conf.nskip + conf.ntracking) / max(prediction.fps, LEAST_FPS)
        prediction = replace(prediction, delay_s=prediction.delay_s + waiting)
    return Choice(
        prediction, prediction.delay_s * wish.tail <= wish.hi * margin, keeps_up, prediction.quality >= wish.quality
    )


def choices(
    predictor: Predictor,
    dag: DagInfo,
    resources: ResourceInfo,
    wish: SearchGoal,
    generator: GeneratorInfo | None,
    barred: frozenset[str] = frozenset(),
) -> Iterator[Choice]:
    """Of each size, model, cut and coding the one that leaves out as few frames as it must. The better come first, and
    what cannot be better than one that fits is not looked at. barred: nodes that are not to be used."""
    sizes, best = _sizes(predictor, dag, generator), 0.0
    most = max(2, MAX_PREDICTIONS // (2 * len(sizes)))
    cuts_of = {model: _cuts(dag, resources, model, barred)[:most] for model in _models(dag)}
    for bound, resolution, model in sizes:
        if bound < best - STEP:
            break
        for mapping in cuts_of[model]:
            for encoder in _encoders(mapping):
                choice = _sparing(predictor, VideoConf(resolution, wish.fps, 0, 0, encoder), mapping, wish)
                if choice.fits:
                    best = max(best, choice.prediction.quality)
                yield choice


def _cuts(
    dag: DagInfo, resources: ResourceInfo, model: int, barred: frozenset[str]
) -> Sequence[Mapping[str, Mapping[str, object]]]:
    """Those that leave most to one node first."""
    found = sorted(mappings(dag, resources, model, ROLES), key=_changes_of_node)
    usable = [one for one in found if not barred & {str(place["node"]) for place in one.values()}]
    return usable or found


def _changes_of_node(mapping: Mapping[str, Mapping[str, object]]) -> int:
    return len({place["node"] for place in mapping.values()})


def _models(dag: DagInfo) -> range:
    return range(max(1, *(facts["n_models"] for facts in dag["stages"].values()), 1))


def _sizes(predictor: Predictor, dag: DagInfo, generator: GeneratorInfo | None) -> list[tuple[float, str, int]]:
    """Quality of each size and model where no frame is left out, the best first; no size above the source's."""
    height = int((generator or {}).get("height") or 0)
    names = list(RESOLUTIONS)
    if height:
        names = [name for name in names if RESOLUTIONS[name][1] <= height] or names[:1]
        names += [name for name in list(RESOLUTIONS)[len(names) :] if RESOLUTIONS[names[-1]][1] < height][:1]
    found = []
    for name in names:
        for model in _models(dag):
            qualities = [
                predictor.knowledge.quality(stage, min(model, max(0, facts["n_models"] - 1)), name)[0]
                for stage, facts in dag["stages"].items()
            ] or [QUALITY[name] * QUALITY_OF_MODEL[0]]
            found.append((min(qualities), name, model))
    return sorted(found, key=lambda one: -one[0])


def _encoders(mapping: Mapping[str, Mapping[str, Any]]) -> Sequence[Encoder]:
    is_away = any(place["node_role"] != HOST for place in mapping.values())
    return (Encoder.JPEG, Encoder.H264) if is_away else (Encoder.JPEG,)


def _sparing(
    predictor: Predictor, conf: VideoConf, mapping: Mapping[str, Mapping[str, object]], wish: SearchGoal
) -> Choice:
    """With the fewest frames left out at which it keeps up. Delay and bytes of a frame do not depend on that."""
    whole = predictor.predict(replace(conf, fps=BOUNDLESS_FPS), mapping)
    can = whole.fps * LOAD
    nskip = next((skip for skip in SKIPS if can * (1 + skip) >= conf.fps), SKIPS[-1])
    prediction = replace(
        whole,
        video_conf=replace(conf, nskip=nskip),
        fps=min(conf.fps, whole.fps * (1 + nskip)),
        quality=whole.quality * kept(nskip, 0),
    )
    return judged(prediction, wish, keeps_up=can * (1 + nskip) >= conf.fps)
