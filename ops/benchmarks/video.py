"""Video jobs over a shaped link: real runners and hosts of stages, the edge and the cloud a core each, and side by side
the product's policies and plans that stay. These are of the same set that the policies choose from (places, sizes,
models, frames left out, coding): the lightest at each place that are as good as what profile did and process as many
frames, and those that somebody would take who has measured the stages and knows what the links will become. Beside its
violations each row has its quality and how many frames a second were looked at, for who looks at fewer has it easier;
profile is compared with the best fixed plan that is as good and sees as much. Each row has processes of its own, and is
measured from two seconds after its first frame on. Plans that send nothing are measured once for all links.

`ops/bench video` takes half an hour, and the scenarios for the aims (`--aims`) a quarter of an hour; `--quick` shows in
three minutes that all of it works. Needs the clips and models of shared/data, and a machine that has nothing else to
do. `--simulated` needs neither: it prints what the simulated nodes of the unit tests would do, in virtual time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ops.benchmarks.video_case import FPS, SIZES, Case, prepared, rows_for
from ops.benchmarks.video_fixed import CLOUD, EDGE, FixedPlan, worth_measuring
from ops.benchmarks.video_loop import runner_and_loop
from ops.benchmarks.video_nodes import NotMeasured, VideoNodes, busy
from ops.benchmarks.video_rows import AS_GOOD, AS_MANY, Row, best_fixed, equals, lines, row_of, titled
from ops.benchmarks.video_simulated import simulated
from tests.harness.link import Line
from tests.harness.paths import SHARED_DATA

HI_S = 0.3
LINE = Line(rtt_s=0.02, bits_per_s=20e6)
SLOW = replace(LINE, bits_per_s=2e6)
SETTLED_S = 2.0
"""After the first frame: models are opened by then, and measuring begins."""
REPORTED_S = 1.2
"""After measuring: what was processed until its end is reported by then."""
LINK_FREE_S = 20.0
"""Long enough for a plan that no step of the link can touch."""
POLICIES = ("stepwise", "aimd", "profile")
FIXED_PLANS = 2
"""Of a scenario, beside those that are equal to profile: see worth_measuring."""


@dataclass(frozen=True)
class Scenario:
    """steps: the link from each of the equal parts of the time on. seconds: of each row; longest: of profile, whose
    changes are counted. fps: of the clip. fixed: how many plans that stay are compared with the policies."""

    name: str
    steps: tuple[Line, ...]
    seconds: float
    longest: float
    policies: tuple[str, ...] = POLICIES
    jobs: int = 1
    is_busy: bool = False
    fps: float = FPS
    fixed: int = FIXED_PLANS


STEPS = (LINE, SLOW, LINE)
ONE = ("profile",)
SCENARIOS = (
    Scenario("constant-fast", (LINE,), 10, 20),
    Scenario("constant-slow", (SLOW,), 10, 20),
    Scenario("constant-slow, 10 fps", (SLOW,), 10, 20, ONE, fps=10),
    Scenario("constant-slow, 12 fps", (SLOW,), 10, 20, ONE, fps=12),
    Scenario("constant-fast, 30 fps", (LINE,), 10, 20, ONE, fps=30),
    Scenario("stepped", STEPS, 60, 60, ONE),
    Scenario("stepped, 12 fps", STEPS, 60, 60, ONE, fps=12),
    Scenario("stepped, busy CPU", STEPS, 60, 60, ONE, is_busy=True),
    Scenario("busy CPU", (LINE,), 8, 12, ONE, is_busy=True),
    Scenario("four jobs", (LINE,), 8, 12, ONE, jobs=4),
)
AIMS = tuple(
    replace(one, policies=ONE, seconds=min(24.0, one.seconds), longest=min(24.0, one.longest), fixed=0)
    for one in SCENARIOS
    if one.name not in ("busy CPU", "four jobs")
)
QUICK = (
    Scenario("constant-fast", (LINE,), 3, 4, fixed=1),
    Scenario("constant-slow", (SLOW,), 3, 4, ONE, fixed=1),
    Scenario("constant-slow, 12 fps", (SLOW,), 3, 4, ONE, fps=12, fixed=1),
    Scenario("stepped", STEPS, 9, 9, ONE, fixed=2),
    Scenario("stepped, 12 fps", STEPS, 9, 9, ONE, fps=12, fixed=2),
    Scenario("busy CPU", (LINE,), 3, 4, ONE, is_busy=True, fixed=1),
    Scenario("four jobs", (LINE,), 3, 4, ONE, jobs=4, fixed=1),
)


def main(options: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="ops/bench video", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each scenario for a moment")
    parser.add_argument("--aims", action="store_true", help="profile beside its equals alone")
    parser.add_argument("--simulated", action="store_true", help="of simulated nodes, in virtual time")
    parser.add_argument("--scenario", action="append", choices=[one.name for one in SCENARIOS])
    parser.add_argument("--policy", action="append", choices=POLICIES, help="these alone, beside the fixed plans")
    parser.add_argument("--fixed", type=int, help="at most so many fixed plans")
    parser.add_argument("--reasons", action="store_true", help="print what the policies say")
    parsed = parser.parse_args(options)
    if parsed.simulated:
        for line in simulated():
            print(line, flush=True)
        return
    if not SHARED_DATA.is_dir():
        print(f"There are no clips and models at {SHARED_DATA}: nothing to measure.", file=sys.stderr)
        return
    rows: dict[str, list[Row]] = {}
    link_free: dict[tuple[str, float], Row] = {}
    shares: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        case = prepared(Path(name))
        for scenario in QUICK if parsed.quick else AIMS if parsed.aims else SCENARIOS:
            if parsed.scenario and scenario.name not in parsed.scenario:
                continue
            chosen = replace(
                scenario,
                policies=tuple(one for one in scenario.policies if one in (parsed.policy or POLICIES)),
                fixed=scenario.fixed if parsed.fixed is None else parsed.fixed,
            )
            folder = Path(name) / chosen.name.replace(" ", "-").replace(",", "")
            at_rate = case.at(chosen.fps, Path(name))
            rows[chosen.name] = _measured(at_rate, folder, chosen, link_free, shows_reasons=parsed.reasons)
        if not parsed.scenario and not parsed.aims:
            try:
                shares = runner_and_loop(case, Path(name) / "loop", 3.0 if parsed.quick else 8.0)
            except NotMeasured as error:
                print(f"runner and loop: {error}", file=sys.stderr)
    for line in lines(rows, shares):
        print(line)


def _measured(
    case: Case, folder: Path, scenario: Scenario, link_free: dict[tuple[str, float], Row], *, shows_reasons: bool
) -> list[Row]:
    """link_free: rows that hold for each link, of one job on an idle machine; those that are new are put there."""
    print(
        f"\n{scenario.name}: {' → '.join(f'{step.bits_per_s / 1e6:g}' for step in scenario.steps)} Mbit/s, a clip of"
        f" {case.fps:g} frames/s, at most {HI_S:g} s a frame\n{titled()}",
        flush=True,
    )
    rows, is_plain = list[Row](), scenario.jobs == 1 and not scenario.is_busy

    def measure(plan: FixedPlan | str) -> None:
        name = plan if isinstance(plan, str) else plan.name
        known, remarks = (name, case.fps), list[str]()
        row = link_free.get(known) if is_plain else None
        if row is None:
            try:
                row, remarks = _run(case, folder / str(len(rows)), scenario, plan)
            except NotMeasured as error:
                print(f"{name}: {error}", file=sys.stderr)
                return
        if is_plain and not isinstance(plan, str) and plan.is_link_free:
            link_free[known] = row
        rows.append(row)
        print("\n".join([str(row), *(f"    {text}" for text in remarks if shows_reasons)]), flush=True)

    for policy in scenario.policies:
        measure(policy)
    mine = next((row for row in rows if row.name == "profile"), None)
    fixed = worth_measuring(
        case.info,
        rows_for(case, (EDGE, CLOUD)),
        SIZES,
        scenario.steps,
        fps=case.fps,
        hi_s=HI_S,
        jobs=scenario.jobs,
        is_busy=scenario.is_busy,
        most=scenario.fixed,
        is_equal=lambda plan: mine is not None and _is_equal(case, plan, mine),
    )
    for plan in fixed:
        measure(plan)
    if mine is not None:
        equal = best_fixed(equals(rows, mine))
        print(f"best fixed plan that is as good as profile and sees as much: {equal.name if equal else 'none'}")
    if best := best_fixed(rows):
        print(f"best fixed plan: {best.name}")
    return rows


def _is_equal(case: Case, plan: FixedPlan, mine: Row) -> bool:
    """Whether a plan that processes all of its frames is as good as a row and sees as much."""
    quality = case.quality(plan.conf.resolution, plan.model, plan.conf.nskip)
    return quality >= mine.quality - AS_GOOD and plan.conf.processed_fps >= AS_MANY * mine.fps


def _run(case: Case, folder: Path, scenario: Scenario, plan: FixedPlan | str) -> tuple[Row, list[str]]:
    """The row, and what the policy and the runners said. plan: a text is a policy's name."""
    is_fixed = not isinstance(plan, str)
    seconds = scenario.longest if plan == "profile" else scenario.seconds
    if not isinstance(plan, str) and plan.is_link_free:
        seconds = min(seconds, LINK_FREE_S)
    with ExitStack() as stack:
        rows = rows_for(case, (EDGE, CLOUD))
        deployment = stack.enter_context(VideoNodes(case, folder, rows, line=scenario.steps[0], hi_s=HI_S))
        if scenario.is_busy:
            stack.callback(busy(deployment.cores[EDGE]))
        given = None if isinstance(plan, str) else plan.plan({name: one.ip for name, one in deployment.hosts.items()})
        jobs = deployment.run_jobs(stack, scenario.jobs, plan if isinstance(plan, str) else None, given)
        time.sleep(SETTLED_S)
        began = time.monotonic()
        _walk(deployment.link.become, scenario.steps, seconds)
        seconds = time.monotonic() - began
        time.sleep(REPORTED_S)
        name = plan if isinstance(plan, str) else plan.name
        row = row_of(name, jobs, case, began, seconds, HI_S, is_fixed=is_fixed)
        return row, [text for job in jobs for text in [*job.reasons, *job.notes]]


def _walk(become: Callable[[Line], None], steps: Sequence[Line], seconds: float) -> None:
    for step in steps:
        become(step)
        time.sleep(seconds / len(steps))


if __name__ == "__main__":
    main(sys.argv[1:])
