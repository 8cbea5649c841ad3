"""Which process of a run gets which tests."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from tests.harness.parallel import Processes


def test_few_processes_begin_a_deployment_that_many_tests_share() -> None:
    fixtures = (["service"], ["service"], ["tmp_path"], ["service", "tmp_path"])
    session: Any = SimpleNamespace(items=[SimpleNamespace(fixturenames=names) for names in fixtures])
    first, second = workers = [SimpleNamespace(begun=frozenset[str]()) for _ in range(2)]
    processes: Any = Processes(2)
    processes._workers = workers
    groups = deque([[0], [1], [2], [3]])
    assert processes._choose(session, first, groups) == [0]
    assert processes._choose(session, second, groups) == [2], "the first that needs none"
    assert processes._choose(session, first, groups) == [1]
    assert processes._choose(session, second, groups) == [3], "nobody waits while there is something to do"
    assert (first.begun, second.begun, list(groups)) == ({"service"}, {"service"}, [])
