"""How long the files of the suite take: kept from run to run, so that the long ones start first, and told at the end.

A plugin of pytest. In several processes (`tests/harness/parallel.py`) a file stays whole in one, for its tests share
what it starts; so does a folder whose files share what is dear to start (`SHARED_FOLDERS`).
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
SHARED_FOLDERS = (
    "tests/browser",
    "tests/chaos",
    "tests/fuzz",
    "tests/integration/joint",
    "tests/integration/ray",
    "tests/unit/source",
)
UNKNOWN_S = 5.0
"""What a file is taken to need that has never run."""


class Durations:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cache: Any = getattr(config, "cache", None)
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The longest groups first; inside of a group as they were collected."""
        seconds = self._known()
        needed: dict[str, float] = defaultdict(float)
        for path in {_path(item.nodeid) for item in items}:
            needed[group_of(path)] += seconds.get(path, UNKNOWN_S)
        order = {name: place for place, name in enumerate(sorted(needed, key=lambda name: (-needed[name], name)))}
        items.sort(key=lambda item: order[group_of(item.nodeid)])

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


def group_of(nodeid: str) -> str:
    """What runs in one process: a folder that shares, or a file."""
    return next((folder for folder in SHARED_FOLDERS if nodeid.startswith(f"{folder}/")), _path(nodeid))


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0]
