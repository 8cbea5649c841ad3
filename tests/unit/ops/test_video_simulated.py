"""The simulated measurement of the policy `profile`: its table is the same each time."""

from __future__ import annotations

import pytest

from ops.benchmarks import video_simulated


@pytest.mark.slow
def test_the_table_has_the_policy_beside_the_best_fixed_plan_in_hindsight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_simulated, "RATES", (24.0,))
    monkeypatch.setattr(video_simulated, "NODES", {"a weak edge": video_simulated.NODES["a weak edge"]})
    links = ("constant 2", "stepped 2 → 20 → 2")
    monkeypatch.setattr(video_simulated, "LINKS", {link: video_simulated.LINKS[link] for link in links})
    monkeypatch.setattr(video_simulated, "SIZES", ("480p", "720p"))
    title, *lines = list(video_simulated.simulated())
    assert title.startswith("Simulated")
    assert [line.partition(" Mbit/s")[0] for line in lines] == list(links)
    assert all("720p big" in line and line.endswith("   met") for line in lines), lines
