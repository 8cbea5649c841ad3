"""How long the files of the suite take: kept from run to run, so that the long ones start first, and told at the end.

A plugin of pytest. With pytest-xdist a file stays whole on one worker, for its tests share what it starts; files whose
tests use a server that is dear to start (`SHARED_SERVERS`) stay together on one worker, so that it starts once a run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from tests.harness.paths import REPOSITORY

KEPT = REPOSITORY / "tests" / "durations.json"
CACHE_KEY = "modelmill/durations"
SLOWEST = 20
SHARED_SERVERS = ("joint", "ray_cluster", "chromium")
"""Fixtures of what is dear to start. Files that use the same one stay together."""
UNKNOWN_S = 5.0
"""What a file is taken to need that has never run."""


class Durations:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cache: Any = getattr(config, "cache", None)
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The longest groups first; inside of a group as they were collected."""
        groups = _groups(items)
        seconds = self._known()
        needed: dict[str, float] = defaultdict(float)
        for path in {_path(item.nodeid) for item in items}:
            needed[groups[path]] += seconds.get(path, UNKNOWN_S)
        for item in items:
            item.add_marker(pytest.mark.xdist_group(groups[_path(item.nodeid)]))
        order = {name: place for place, name in enumerate(sorted(needed, key=lambda name: (-needed[name], name)))}
        items.sort(key=lambda item: order[groups[_path(item.nodeid)]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_path(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._seconds or self._config.option.collectonly:
            return
        slowest = sorted(self._seconds.items(), key=lambda entry: -entry[1])[:SLOWEST]
        terminalreporter.section(f"slowest {len(slowest)} files of {len(self._seconds)}")
        for path, seconds in slowest:
            terminalreporter.write_line(f"{seconds:7.1f} s  {path}")

    def pytest_sessionfinish(self) -> None:
        """Only the process that hears of all tests keeps them."""
        if hasattr(self._config, "workerinput") or not self._seconds:
            return
        known = self._known() | {path: round(seconds, 1) for path, seconds in self._seconds.items()}
        known = {path: seconds for path, seconds in sorted(known.items()) if (REPOSITORY / path).exists()}
        if self._cache is not None:
            self._cache.set(CACHE_KEY, known)
        if self._config.getoption("--keep-durations"):
            KEPT.write_text(json.dumps(known, indent=0) + "\n")

    def _known(self) -> dict[str, float]:
        kept: dict[str, float] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        cached: dict[str, float] = self._cache.get(CACHE_KEY, {}) if self._cache is not None else {}
        return kept | cached


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-durations", action="store_true", help=f"write what the files took into {KEPT.name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Durations(config), "durations-of-files")


def _groups(items: list[pytest.Item]) -> dict[str, str]:
    """File → the group in which it runs: that of the first shared server that any of its tests uses, or its own."""
    groups: dict[str, str] = {}
    for item in items:
        path = _path(item.nodeid)
        used = [name for name in SHARED_SERVERS if name in getattr(item, "fixturenames", ())]
        if used or path not in groups:
            groups[path] = used[0] if used else path
    return groups


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0]
