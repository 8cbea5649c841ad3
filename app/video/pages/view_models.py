"""How a video job looks to a reader: its state, figures and plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.kit.text.json_values import is_number, number_in, whole_in
from app.kit.web import charts
from app.results.model.frame_result import FACTS
from app.video.model.constraint import DEFAULT_DELAY_S, LEVELS
from app.video.model.dag import Dag
from app.video.model.job import JobState, Mode, VideoJob
from app.video.model.plan import Role

SNAPSHOT_S = 5
EDGE, CLOUD = "edge", "cloud"
PERCENT = 100.0


@dataclass(frozen=True)
class StageTimes:
    """Of a stage, seconds."""

    stage: str
    whole: float
    computing: float | None
    queue: float
    way: float
    """There and back, and what the runner itself adds. None if the runner says only the whole."""
    shares: tuple[float, float, float]
    """Of the longest stage, in percent, in the order computing, queue, way."""


@dataclass(frozen=True)
class JobFigures:
    """Of the newest plan_result; None: not said."""

    p50: float | None
    p95: float | None
    hi: float
    """Of the constraint."""
    fps: float | None
    frames: int | None
    tracked: int | None
    skipped: int | None
    still: int | None
    """Not processed because nothing had moved."""
    dropped: int | None
    violations: int | None
    bytes_up: float | None
    fallbacks: int | None
    quality: float | None
    """Mean F1 of the stages that say one, 0..1."""
    is_hurried: bool = True
    """Did anybody ask for a time? Who has each frame processed, as fast as that goes, has not, unless they say so."""

    @property
    def is_late(self) -> bool:
        return self.is_hurried and self.p50 is not None and self.p50 > self.hi

    @property
    def still_share(self) -> float:
        """Of the frames that the plan takes, 0..1."""
        return (self.still or 0) / max(1, (self.still or 0) + (self.frames or 0))

    @property
    def bar(self) -> Markup:
        most = max(self.hi * 1.5, self.p50 or 0.0)
        return charts.bar(self.p50, most, "series-2" if self.is_late else "series-1", rule=self.hi)


@dataclass(frozen=True)
class PlacedStage:
    """A stage of the plan."""

    stage: str
    lane: str
    """Cloud, or edge for all else."""
    role: str
    node: str
    ip: str
    size: int
    """Of the model, as model_id."""
    model: str


@dataclass(frozen=True)
class JobView:
    job: VideoJob
    figures: JobFigures
    counts: Mapping[str, Any]
    """Of the newest frame: numbers and words, no lists."""
    placed: tuple[PlacedStage, ...]
    bars: tuple[StageTimes, ...]
    picture_at: str
    """Changes when there may be a newer snapshot."""

    @property
    def split(self) -> tuple[int, int]:
        """How many stages run at the edge and in the cloud."""
        in_cloud = sum(place.lane == CLOUD for place in self.placed)
        return len(self.placed) - in_cloud, in_cloud

    @property
    def is_silent(self) -> bool:
        """Its node does not respond, so that its state is what it last was."""
        return not self.is_over and "offline" in self.job.flags

    @property
    def cannot_run(self) -> bool:
        """It has a plan, and its runner does not start: the job's reason says why."""
        return self.job.state is JobState.EXEC and self.job.cannot_run

    @property
    def look(self) -> str:
        """The color of its badge."""
        job = self.job
        if job.state is JobState.DONE:
            return {"finished": "ok", "error": "bad"}.get(job.ending.value if job.ending else "", "wait")
        if self.is_silent:
            return "wait"
        if self.cannot_run:
            return "bad"
        return "busy" if job.flags or job.runner_trouble else "ok" if job.state is JobState.EXEC else "wait"

    @property
    def is_over(self) -> bool:
        return self.job.state is JobState.DONE

    @property
    def measures(self) -> bool:
        """It has no picture and no delays, but a progress."""
        return self.job.mode is Mode.PROFILE

    @property
    def source_fps(self) -> float | None:
        """Frames a second of its source; None: not known yet, and those of the plan are only a limit."""
        return number_in(self.job.generator_output, "fps")

    @property
    def level(self) -> int:
        """acc_level of the constraint."""
        return max(n for n, least in enumerate(LEVELS) if least <= self.job.constraint.quality + 1e-9)


def view_of(job: VideoJob) -> JobView:
    newest = job.results[-1] if job.results else {}
    counts = {
        str(key): value for key, value in newest.items() if key not in FACTS and isinstance(value, int | float | str)
    }
    at = (job.reported_at or "")[:19]
    return JobView(job, figures_of(job), counts, placed_of(job), bars_of(result_of(job)), at)


def version_of(job: VideoJob) -> str:
    """Equal while nothing would look different."""
    seq = job.plan.seq if job.plan else 0
    changing = (
        job.state,
        job.n_loop,
        job.reported_at,
        job.flags,
        seq,
        job.policy,
        job.constraint,
        job.progress,
        job.name,
    )
    return f"{job.uid} {changing}"


def result_of(job: VideoJob) -> Mapping[str, Any]:
    """The results of the plan that is shown; empty until there are some."""
    return job.plan_result if job.is_of_plan(job.plan_result) else {}


def figures_of(job: VideoJob) -> JobFigures:
    result = result_of(job)
    counts = ("frames", "tracked", "skipped", "still", "dropped", "violations", "fallbacks")
    whole = {key: whole_in(result, key) for key in counts}
    return JobFigures(
        p50=number_in(result, "e2e_p50"),
        p95=number_in(result, "e2e_p95"),
        hi=job.constraint.hi,
        fps=number_in(result, "fps"),
        bytes_up=number_in(result, "bytes_up"),
        quality=quality_of(result),
        is_hurried=job.realtime or job.constraint.hi != DEFAULT_DELAY_S,
        **whole,
    )


def quality_of(plan_result: Mapping[str, Any]) -> float | None:
    """Mean F1 against the reference configuration."""
    given = plan_result.get("iou")
    values = [value for value in given.values() if is_number(value)] if isinstance(given, Mapping) else []
    return sum(values) / len(values) if values else None


def placed_of(job: VideoJob) -> tuple[PlacedStage, ...]:
    if job.plan is None:
        return ()
    known = {stage.name: stage for stage in job.stages}
    stages = []
    for name in job.dag.stages:
        place = job.plan.flow_mapping.get(name)
        if place is None:
            continue
        variants = known[name].variants if name in known else ()
        cards = variants[place.model_id] if place.model_id < len(variants) else ()
        lane = CLOUD if place.node_role is Role.CLOUD else EDGE
        model = ", ".join(card.name for card in cards)
        stages.append(PlacedStage(name, lane, place.node_role.value, place.node, place.node_ip, place.model_id, model))
    return tuple(stages)


def lanes_of(flow_mapping: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """stage → edge or cloud, of a plan as JSON."""
    return {stage: CLOUD if place.get("node_role") == CLOUD else EDGE for stage, place in flow_mapping.items()}


def bars_of(plan_result: Mapping[str, Any]) -> tuple[StageTimes, ...]:
    delays = _read_numbers(plan_result, "delay")
    computing, queue = _read_numbers(plan_result, "server"), _read_numbers(plan_result, "queue")
    longest = max(delays.values(), default=0.0) or 1.0
    return tuple(
        _make_bar(stage, whole, computing.get(stage), queue.get(stage, 0.0), longest) for stage, whole in delays.items()
    )


def _make_bar(stage: str, whole: float, computing: float | None, queue: float, longest: float) -> StageTimes:
    if computing is None:
        return StageTimes(stage, whole, None, 0.0, 0.0, (round(PERCENT * whole / longest, 1), 0.0, 0.0))
    way = max(0.0, whole - computing - queue)
    shares = [round(PERCENT * min(part, longest) / longest, 1) for part in (computing, queue, way)]
    return StageTimes(stage, whole, computing, queue, way, (shares[0], shares[1], shares[2]))


def dag_edges(dag: Dag) -> list[tuple[str, str]]:
    """(from, to), also from the generator and to Render, without what follows from others' order."""
    edges = [(dag.generator, stage) for stage in dag.stages if not dag.before.get(stage)]
    edges += [(before, stage) for stage in dag.stages for before in sorted(dag.before.get(stage, ()))]
    for reference in dag.inputs.get("Render", {}).values():
        if (reference.source, "Render") not in edges:
            edges.append((reference.source, "Render"))
    return edges


def _read_numbers(values: Mapping[str, Any], key: str) -> dict[str, float]:
    given = values.get(key)
    if not isinstance(given, Mapping):
        return {}
    return {str(name): float(value) for name, value in given.items() if is_number(value)}
