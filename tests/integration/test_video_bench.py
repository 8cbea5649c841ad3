"""The measurement of video jobs still runs. What it finds is not judged here: other tests share the machine."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.harness.paths import REPOSITORY


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(1800)  # it measures plan after plan, each until a busy machine has carried it out
@pytest.mark.usefixtures("shared_data")
def test_a_moment_on_a_slow_link_shows_a_fixed_plan_beside_the_policy_and_the_aims() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops.benchmarks", "video", "--quick", "--scenario", "constant-slow", "--reasons"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=1770,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in (r"(edge|cut|cloud) \d+p \w+ 1/\d+( H264)?", "profile"):
        assert re.search(rf"^{name} +\d+ +[\d.]+% +\d+ ms +\d+ ms", done.stdout, re.MULTILINE), done.stdout
    assert "the first plan" in done.stdout
    assert re.search(r"^constant-slow: quality with profile.* >= [\d.]+ +(not )?met$", done.stdout, re.MULTILINE)
