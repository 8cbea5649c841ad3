"""Video jobs over a shaped link: real runners and hosts of stages, the edge and the cloud a core each, and the policies
side by side: fixed plans, and the product's stepwise, aimd and profile. Each row has processes of its own, and is
measured from two seconds after its first frame on. Plans that send nothing are measured once for all links.

`ops/bench video` takes ten minutes; `--quick` shows in two that all of it works. Needs the clips and models of
shared/data.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from app.video.model.plan import Encoder, Plan, VideoConf
from ops.benchmarks.video_case import ALIGNMENT, DETECTION, FPS, Case, prepared, rows_for
from ops.benchmarks.video_loop import runner_and_loop
from ops.benchmarks.video_nodes import CLOUD, EDGE, NotMeasured, VideoNodes, busy
from ops.benchmarks.video_rows import Row, best_fixed, lines, row_of, titled
from tests.harness.link import Line
from tests.harness.paths import SHARED_DATA

HI_S = 0.3
LINE = Line(rtt_s=0.02, bits_per_s=20e6)
SLOW = replace(LINE, bits_per_s=2e6)
SETTLED_S = 2.0
"""After the first frame: models are opened by then, and measuring begins."""
REPORTED_S = 1.2
"""After measuring: what was processed until its end is reported by then."""
HERE, THERE = dict.fromkeys((DETECTION, ALIGNMENT), EDGE), dict.fromkeys((DETECTION, ALIGNMENT), CLOUD)
FIXED: Mapping[str, tuple[Mapping[str, str], VideoConf]] = {
    "edge, 720p": (HERE, VideoConf("720p", FPS)),
    "edge, 480p": (HERE, VideoConf("480p", FPS)),
    "cloud, 720p": (THERE, VideoConf("720p", FPS)),
    "cloud, 480p": (THERE, VideoConf("480p", FPS)),
    "cloud, 480p H264": (THERE, VideoConf("480p", FPS, encoder=Encoder.H264)),
}
LINK_FREE = frozenset(name for name, (places, _) in FIXED.items() if places is HERE)
LINK_FREE_S = 20.0
"""Long enough for a plan that no step of the link can touch."""
POLICIES = ("stepwise", "aimd", "profile")
THROUGH_2_MBITS = tuple(name for name in FIXED if name != "cloud, 720p")
FEW = ("edge, 480p", "cloud, 480p H264")


@dataclass(frozen=True)
class Scenario:
    """steps: the link from each of the equal parts of the time on. seconds: of each row; longest: of profile, whose
    changes are counted. fixed, policies: that are compared."""

    name: str
    steps: tuple[Line, ...]
    seconds: float
    longest: float
    fixed: tuple[str, ...] = tuple(FIXED)
    policies: tuple[str, ...] = POLICIES
    jobs: int = 1
    is_busy: bool = False


SCENARIOS = (
    Scenario("constant-fast", (LINE,), 10, 20),
    Scenario("constant-slow", (SLOW,), 10, 20, THROUGH_2_MBITS),
    Scenario("stepped", (LINE, SLOW, LINE), 60, 60, THROUGH_2_MBITS, ("profile",)),
    Scenario("busy CPU", (LINE,), 8, 12, FEW, ("profile",), is_busy=True),
    Scenario("four jobs", (LINE,), 8, 12, FEW, ("profile",), jobs=4),
)
QUICK = (
    Scenario("constant-fast", (LINE,), 3, 4, FEW[1:]),
    Scenario("constant-slow", (SLOW,), 3, 4, FEW[:1], ("profile",)),
    Scenario("stepped", (LINE, SLOW, LINE), 9, 9, FEW[1:], ("profile",)),
    Scenario("busy CPU", (LINE,), 3, 4, FEW[:1], ("profile",), is_busy=True),
    Scenario("four jobs", (LINE,), 3, 4, FEW[1:], ("profile",), jobs=4),
)


def main(options: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="ops/bench video", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each scenario for a moment")
    parser.add_argument("--scenario", action="append", choices=[one.name for one in SCENARIOS])
    parser.add_argument("--policy", action="append", choices=[*FIXED, *POLICIES])
    parser.add_argument("--reasons", action="store_true", help="print what the policies say")
    asked = parser.parse_args(options)
    if not SHARED_DATA.is_dir():
        print(f"There are no clips and models at {SHARED_DATA}: nothing to measure.", file=sys.stderr)
        return
    found: dict[str, list[Row]] = {}
    link_free: dict[str, Row] = {}
    shares: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        case = prepared(Path(name))
        for scenario in QUICK if asked.quick else SCENARIOS:
            if asked.scenario and scenario.name not in asked.scenario:
                continue
            chosen = _only(scenario, asked.policy)
            folder = Path(name) / chosen.name.replace(" ", "-")
            found[chosen.name] = _measured(case, folder, chosen, link_free, shows_reasons=asked.reasons)
        if not asked.scenario:
            try:
                shares = runner_and_loop(case, Path(name) / "loop", 3.0 if asked.quick else 8.0)
            except NotMeasured as error:
                print(f"runner and loop: {error}", file=sys.stderr)
    for line in lines(found, shares):
        print(line)


def _only(scenario: Scenario, names: Sequence[str] | None) -> Scenario:
    if not names:
        return scenario
    fixed, policies = ([name for name in some if name in names] for some in (FIXED, POLICIES))
    return replace(scenario, fixed=tuple(fixed), policies=tuple(policies))


def _measured(
    case: Case, folder: Path, scenario: Scenario, link_free: dict[str, Row], *, shows_reasons: bool
) -> list[Row]:
    """link_free: rows that hold for each link, of one job on an idle machine; those that are new are put there."""
    print(f"\n{scenario.name}: {' → '.join(f'{step.bits_per_s / 1e6:g}' for step in scenario.steps)} Mbit/s,"
          f" at most {HI_S:g} s a frame\n{titled()}", flush=True)  # fmt: skip
    rows, is_plain = [], scenario.jobs == 1 and not scenario.is_busy
    for number, name in enumerate((*scenario.fixed, *scenario.policies)):
        row = link_free.get(name) if is_plain else None
        said: list[str] = []
        if row is None:
            try:
                row, said = _run(case, folder / str(number), scenario, name)
            except NotMeasured as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
        if is_plain and name in LINK_FREE:
            link_free[name] = row
        rows.append(row)
        print("\n".join([str(row), *(f"    {text}" for text in said if shows_reasons)]), flush=True)
    if best := best_fixed(rows):
        print(f"best fixed plan: {best.name}")
    return rows


def _run(case: Case, folder: Path, scenario: Scenario, name: str) -> tuple[Row, list[str]]:
    """The row, and what the policy and the runners said."""
    seconds = scenario.longest if name == "profile" else scenario.seconds
    if name in LINK_FREE:
        seconds = min(seconds, LINK_FREE_S)
    with ExitStack() as stack:
        rows = rows_for(case, (EDGE, CLOUD))
        deployment = stack.enter_context(VideoNodes(case, folder, rows, line=scenario.steps[0], hi_s=HI_S))
        if scenario.is_busy:
            stack.callback(busy(deployment.cores[EDGE]))
        plan = _fixed(deployment, name)
        jobs = deployment.run_jobs(stack, scenario.jobs, None if plan else name, plan)
        time.sleep(SETTLED_S)
        began = time.monotonic()
        _walk(deployment.link.become, scenario.steps, seconds)
        seconds = time.monotonic() - began
        time.sleep(REPORTED_S)
        row = row_of(name, jobs, case, began, seconds, HI_S, is_fixed=name in FIXED)
        return row, [text for job in jobs for text in [*job.reasons, *job.notes]]


def _walk(become: Callable[[Line], None], steps: Sequence[Line], seconds: float) -> None:
    for step in steps:
        become(step)
        time.sleep(seconds / len(steps))


def _fixed(deployment: VideoNodes, name: str) -> Plan | None:
    if name not in FIXED:
        return None
    places, conf = FIXED[name]
    return deployment.plan(places, conf)


if __name__ == "__main__":
    main(sys.argv[1:])
