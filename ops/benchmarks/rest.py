"""What `modelmill up` costs while nobody asks anything of it: memory and CPU of each process, and of all together.

PSS: pages that several processes share are divided among them. MODELMILL_BENCH_S sets for how long the CPU time is
counted, 60 s by default, which is one of each minute's beats of the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.harness.processes import cpu_s, memory_of, until_quiet, with_descendants

SECONDS = float(os.environ.get("MODELMILL_BENCH_S", "60"))
START_S = 60.0
MIB = 1 << 20
PSS_MAX, CPU_MAX = 200, 0.5
"""MiB and percent of one core: what the whole may cost."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "app.cli.main", "up", "--port", "0", "--data-dir", str(folder)]
        env = {key: value for key, value in os.environ.items() if not key.startswith("MODELMILL_")}
        log = (folder / "up.log").open("wb")
        with log, subprocess.Popen(command, env=env, stdout=log, stderr=log) as up:
            try:
                _wait_for(folder, up)
                until_quiet(with_descendants([up.pid]))
                _report(up.pid)
            finally:
                up.terminate()


def _wait_for(folder: Path, up: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while "is up at" not in (folder / "up.log").read_text():
        if up.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((folder / "up.log").read_text())
        time.sleep(0.1)
    json.loads((folder / "run" / "lock").read_text())["url"]


def _report(root: int) -> None:
    pids = sorted(with_descendants([root]))
    before = {pid: cpu_s([pid]) for pid in pids}
    time.sleep(SECONDS)
    print(f"\n`modelmill up` at rest for {SECONDS:g} s; memory in MiB, CPU in percent of one core")
    print(f"{'process':28} {'pid':>8} {'PSS':>7} {'private':>8} {'CPU %':>7}")
    total = [0.0, 0.0, 0.0]
    for pid in pids:
        used = memory_of(pid)
        percent = 100 * (cpu_s([pid]) - before[pid]) / SECONDS
        row = [used["Pss"] / MIB, (used["Private_Dirty"] + used["Private_Clean"]) / MIB, percent]
        total = [sum(pair) for pair in zip(total, row, strict=True)]
        print(f"{_name(pid):28} {pid:8} {row[0]:7.1f} {row[1]:8.1f} {row[2]:7.3f}")
    print(f"{'all':28} {len(pids):8} {total[0]:7.1f} {total[1]:8.1f} {total[2]:7.3f}")
    print(
        f"limits: {PSS_MAX} MiB PSS ({'kept' if total[0] < PSS_MAX else 'BROKEN'}), "
        f"{CPU_MAX} % of a core ({'kept' if total[2] < CPU_MAX else 'BROKEN'})"
    )


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"


if __name__ == "__main__":
    main()
