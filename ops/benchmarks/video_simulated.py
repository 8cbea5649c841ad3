"""The policy profile beside fixed plans on simulated nodes, in virtual time: the same on each machine and at each load.

What stages cost, how their times scatter and what links give is assumed; the runner's queue, its measurements and its
requests for plans are the real ones. The fixed plans are all combinations of place, size, model, frames left out and
coding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from app.video.model.plan import Encoder
from app.video.scheduling.policies.profile import profile
from app.video.scheduling.search import SKIPS
from ops.benchmarks.video_rows import AS_GOOD, AS_MANY, WHAT, Row, beside, best_fixed, equals
from tests.harness.deployment import percentile
from tests.harness.video.simulated_job import EVEN_NODES, HI, WEAK_EDGE, Ran, SimulatedJob, StageCosts, fixed_plan

SECONDS = 60.0
NOISE, OPENING_S = 0.3, 0.1
RATES = (10.0, 12.0, 24.0, 30.0)
SIZES = ("240p", "360p", "480p", "720p")
MODELS = ("big", "middle", "small")
EDGE, CLOUD = "edge0", "cloud0"
NODES: Mapping[str, tuple[StageCosts, bool]] = {
    "an edge like the cloud": (EVEN_NODES, False),
    "a weak edge": (WEAK_EDGE, False),
    "an edge like the cloud, busy": (EVEN_NODES, True),
}
"""What stages cost, and whether another program uses the edge all the time."""
LINKS: Mapping[str, Callable[[float], float]] = {
    "constant 20": lambda _: 20.0,
    "constant 2": lambda _: 2.0,
    "stepped 20 → 2 → 20": lambda at: 2.0 if SECONDS <= 3 * at < 2 * SECONDS else 20.0,
    "stepped 2 → 20 → 2": lambda at: 20.0 if SECONDS <= 3 * at < 2 * SECONDS else 2.0,
}
"""Mbit/s by seconds."""
Fixed = tuple[str, tuple[dict[str, object], dict[str, object]]]


def _all_the_time(is_busy: bool) -> Callable[[float], bool]:
    return lambda _: is_busy


def simulated() -> Iterator[str]:
    """Yields the lines of the table."""
    yield f"Simulated, {SECONDS:g} s of virtual time each\n{'':{WHAT}} {'simulated':>12} {'aim':>12}"
    for nodes, (costs, is_busy) in NODES.items():
        for fps in RATES:
            for link, mbps in LINKS.items():
                job = SimulatedJob(
                    mbps,
                    hi=HI,
                    seconds=SECONDS,
                    costs=costs,
                    opening_s=OPENING_S,
                    fps=fps,
                    noise=NOISE,
                    is_told=True,
                    is_busy=_all_the_time(is_busy),
                )
                mine = _row("profile", job.run(profile), is_fixed=False)
                rows = [_row(name, job.run(_always(plan)), is_fixed=True) for name, plan in _plans(job, mine)]
                name = f"{link} Mbit/s, {fps:g} fps, {nodes}"
                yield str(beside(name, mine, best_fixed(equals(rows, mine)), best_fixed(rows)))


def _plans(job: SimulatedJob, mine: Row) -> Iterator[Fixed]:
    """Yields the plans that are as good as a row and process as many frames."""
    cuts = {"edge": (EDGE, EDGE), "cut": (EDGE, CLOUD), "cloud": (CLOUD, CLOUD)}
    for where, (detection, alignment) in cuts.items():
        places = {"face_detection": detection, "face_alignment": alignment}
        for size in SIZES:
            for model, model_name in enumerate(MODELS):
                for nskip in SKIPS:
                    for encoder in Encoder if where != "edge" else (Encoder.JPEG,):
                        plan = fixed_plan(places, size, model, nskip=nskip, fps=job.fps, encoder=encoder.value)
                        is_as_good = job.costs.quality_of(plan) >= mine.quality - AS_GOOD
                        if is_as_good and job.fps / (1 + nskip) >= AS_MANY * mine.fps:
                            coding = " H264" if encoder is Encoder.H264 else ""
                            yield f"{where} {size} {model_name} 1/{1 + nskip}{coding}", plan


def _always(plan: object) -> Callable[..., object]:
    return lambda **_: plan


def _row(name: str, ran: Ran, *, is_fixed: bool) -> Row:
    times = sorted(took for _, took in ran.e2e)
    return Row(
        name,
        ran.demand,
        ran.violation_rate(HI),
        percentile(times, 0.5),
        percentile(times, 0.95),
        len(times) / SECONDS,
        ran.missed / ran.demand,
        0.0,
        ran.quality,
        len(ran.changed_at) * 60 / SECONDS,
        0.0,
        is_fixed,
    )
