"""Fixed plans worth measuring: of all that the policy may choose from, those that somebody would take who has measured
stages and links as it has, and knows beforehand what the links will become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.video.model.plan import Encoder, Plan, Role, StagePlace, VideoConf
from app.video.scheduling.contract import DagInfo, Measured, NodeInfo, ResourceInfo, ServiceInfo
from app.video.scheduling.cuts import mappings
from app.video.scheduling.predictor import BOUNDLESS_FPS, Prediction, Predictor
from app.video.scheduling.profile_model import ProfileModel, compute_kept_quality
from app.video.scheduling.search import LOAD, SKIPS, SearchGoal, assess
from tests.harness.link import Line

EDGE, CLOUD = "edge0", "cloud0"
ROLES = {EDGE: "host", CLOUD: "cloud"}
BUSY = 0.5
"""The share of a core that another program takes, which computes endlessly."""
GRAINS = (1.0, 0.7, 0.4)
"""Of the limit that a plan may be predicted to take: who is careful takes a lighter one."""
MODELS = ("big", "middle", "small")


@dataclass(frozen=True)
class FixedPlan:
    """A fixed plan. `places`: stage → node and model."""

    name: str
    conf: VideoConf
    places: Mapping[str, tuple[str, int]]

    @property
    def model(self) -> int:
        return max(model for _, model in self.places.values())

    @property
    def is_link_free(self) -> bool:
        return all(node == EDGE for node, _ in self.places.values())

    def plan(self, ips: Mapping[str, str]) -> Plan:
        mapping = {
            stage: StagePlace(model, Role(ROLES[node]), ips[node], node) for stage, (node, model) in self.places.items()
        }
        return Plan(0, self.conf, mapping, "fixed")


@dataclass(frozen=True)
class _Rated:
    """A rated plan. `quality`: predicted, with omitted frames; `delay_s`: the longest of all steps; `load`: the
    greatest share that it needs of the possible rate; `fits`: on each step."""

    fixed: FixedPlan
    quality: float
    delay_s: float
    load: float
    fits: Sequence[bool]


def worth_measuring(
    dag: DagInfo,
    rows: Sequence[Measured],
    sizes: Sequence[str],
    steps: Sequence[Line],
    *,
    fps: float,
    hi_s: float,
    jobs: int,
    is_busy: bool,
    most: int,
    is_equal: Callable[[FixedPlan], bool] = lambda _: False,
) -> list[FixedPlan]:
    """Chooses the plans. First, at each place (all at the edge, cut in between, all in the cloud), the lightest of
    those that are equal to the policy's: what an oracle would take. Then at each place the best that keeps the limit on
    every step, the best that keeps it on the first, and more careful ones of both, by what they are worth.

    Args:
        dag: of the job.
        rows: the measured stages.
        sizes: that are possible.
        steps: what the link becomes.
        fps: of the clip.
        hi_s: the longest delay allowed.
        jobs: so many share the nodes.
        is_busy: whether something else computes on the edge.
        most: so many plans at most, beside those that are equal.
        is_equal: whether a plan is as good as the policy's and processes as many frames.
    """
    rated = list(_rated(dag, rows, sizes, steps, fps=fps, hi_s=hi_s, jobs=jobs, is_busy=is_busy))
    lightest: dict[str, FixedPlan] = {}
    for one in sorted(rated, key=lambda one: (-sum(one.fits), max(one.load, one.delay_s / hi_s), one.delay_s)):
        if is_equal(one.fixed):
            lightest.setdefault(one.fixed.name.split()[0], one.fixed)
    kept: dict[str, _Rated] = {}
    for grain in GRAINS:
        for where in sorted({one.fixed.name.split()[0] for one in rated}):
            there = [one for one in rated if one.fixed.name.split()[0] == where]
            for is_safe in (True, False):
                fitting = [
                    one for one in there if one.delay_s <= grain * hi_s and (all(one.fits) if is_safe else one.fits[0])
                ]
                if fitting:
                    best = max(fitting, key=_rank)
                    kept.setdefault(best.fixed.name, best)
    if not kept:
        kept = {one.fixed.name: one for one in sorted(rated, key=lambda one: one.delay_s)[:1]}
    ranked = sorted(kept.values(), key=lambda one: (all(one.fits), *_rank(one)), reverse=True)
    others = [one.fixed for one in ranked if one.fixed not in lightest.values()]
    return [*lightest.values(), *others[:most]]


def _rank(one: _Rated) -> tuple[float, float, float]:
    """Returns the rank; greater is better: quality, then processed frames, then speed."""
    return round(one.quality, 2), -float(one.fixed.conf.nskip), -one.delay_s


def _rated(
    dag: DagInfo,
    rows: Sequence[Measured],
    sizes: Sequence[str],
    steps: Sequence[Line],
    *,
    fps: float,
    hi_s: float,
    jobs: int,
    is_busy: bool,
) -> Iterator[_Rated]:
    predictors = [_predictor(dag, rows, line, is_busy=is_busy) for line in steps]
    wish = SearchGoal(hi_s, 0.0, fps)
    models = range(max(facts["n_models"] for facts in dag["stages"].values()))
    for model in models:
        for mapping in mappings(dag, pictured(dag, steps[0], is_busy=is_busy), model, {"cloud"}):
            is_away = any(place["node"] != EDGE for place in mapping.values())
            for size in sizes:
                for encoder in (Encoder.JPEG, Encoder.H264) if is_away else (Encoder.JPEG,):
                    conf = VideoConf(size, fps, 0, 0, encoder)
                    whole = [one.predict(replace(conf, fps=BOUNDLESS_FPS), mapping) for one in predictors]
                    for nskip in SKIPS:
                        yield _of(whole, replace(conf, nskip=nskip), wish, jobs, mapping)


def _of(
    whole: Sequence[Prediction],
    conf: VideoConf,
    wish: SearchGoal,
    jobs: int,
    mapping: Mapping[str, Mapping[str, object]],
) -> _Rated:
    """Rates a plan. `whole`: the quality of each step without omitted frames."""
    looked = conf.processed_fps
    judgements = [
        assess(replace(one, video_conf=conf), wish, margin=1.0, keeps_up=one.fps * LOAD / jobs >= looked)
        for one in whole
    ]
    places = {stage: (str(place["node"]), int(str(place["model_id"]))) for stage, place in mapping.items()}
    quality = min(one.quality for one in whole) * compute_kept_quality(conf.nskip, 0)
    longest = max(one.prediction.delay_s for one in judgements)
    load = max(looked * jobs / one.fps for one in whole)
    fits = [one.fits for one in judgements]
    return _Rated(FixedPlan(_name(conf, places), conf, places), quality, longest, load, fits)


def _name(conf: VideoConf, places: Mapping[str, tuple[str, int]]) -> str:
    nodes = {node for node, _ in places.values()}
    where = "cut" if len(nodes) > 1 else "edge" if nodes == {EDGE} else "cloud"
    model = MODELS[max(model for _, model in places.values())]
    h264 = " H264" if conf.encoder is Encoder.H264 else ""
    return f"{where} {conf.resolution} {model} 1/{1 + conf.nskip}{h264}"


def _predictor(dag: DagInfo, rows: Sequence[Measured], line: Line, *, is_busy: bool) -> Predictor:
    corrections = {f"latency@{CLOUD}": line.rtt_s}
    return Predictor(dag, pictured(dag, line, is_busy=is_busy), ProfileModel(rows), corrections)


def pictured(dag: DagInfo, line: Line, *, is_busy: bool) -> ResourceInfo:
    """Returns the two nodes with a core each, and the load that keeps the edge busy."""
    return {name: _node(dag, name, line, BUSY if is_busy and name == EDGE else 0.0) for name in ROLES}


def _node(dag: DagInfo, name: str, line: Line, cpu: float) -> NodeInfo:
    mbps = line.bits_per_s / 1e6 if name == CLOUD else None
    service: ServiceInfo = {"n_process": 1, "cpu_ratio": 0.0, "mem_ratio": 0.0, "queue": 0, "url": ""}
    return {
        "node": name,
        "ip": name,
        "role": ROLES[name],
        "online": True,
        "cpu_ratio": cpu,
        "mem_ratio": 0.0,
        "cores": 1,
        "accelerators": [],
        "up_mbps": mbps,
        "down_mbps": mbps,
        "age_s": 0.0,
        "service": dict.fromkeys(dag["stages"], service),
    }
