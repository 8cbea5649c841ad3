"""The measurements still run. What they find is not judged here: other tests share the machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.harness.paths import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


def _bench(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ops.benchmarks", *words],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_capacity_runs_and_finds_no_schedule_better_than_the_ideal() -> None:
    shown = _bench("capacity", "--jobs", "5", "--queued", "100,200")
    ratios = [float(ratio) for ratio in re.findall(r"ratio (\d+\.\d+)", shown)]
    assert len(ratios) == 2 and min(ratios) > 0.99
    assert re.search(r"commands inside Redis +\d+", shown) and re.search(r"POST /jobs +\d+", shown)


def test_hops_shows_the_way_of_a_job_through_all_processes() -> None:
    shown = _bench("hops", MODELMILL_BENCH_JOBS="5")
    for hop in ("submitted → onnx begins", "done begins → nef begins", "done begins → its end is heard of"):
        assert re.search(rf"^{hop} +\d+ +\d+$", shown, re.MULTILINE)
    assert re.search(r"wake-ups per job.*: \d+\.\d", shown)


def test_peers_puts_the_product_beside_the_limit_and_says_what_it_was_told_wrongly() -> None:
    shown = _bench("peers", "--only", "raw,modelmill", "--rounds", "1")
    for name in ("modelmill", "raw"):
        assert re.search(rf"^{name}( +[\d.]+){{8}} +100 / 500$", shown, re.MULTILINE)
    assert "against the raw limit" in shown
    with pytest.raises(AssertionError, match="unknown: redisson"):
        _bench("peers", "--only", "redisson")
