"""Training that is set up in a running `modelmill up`, by the button of the page Demonstrations, on a real Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.until import until
from tests.integration.test_quickstart import Up

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.ray]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Up]:
    started = Up(tmp_path / "data", "--workers", "onnx=0,bie=0,nef=0")
    yield started
    started.close()


def test_the_button_starts_a_cluster_on_which_the_demonstration_learns_and_which_ends_with_the_stack(stack: Up) -> None:
    with httpx.Client(base_url=stack.url, headers={"Origin": stack.url}, trust_env=False, timeout=60) as browser:
        assert "Set up training" in browser.get("/ui/demonstrations").text
        valkey = stack.pids("valkey-server")
        assert browser.post("/ui/demonstrations/training/start").status_code == 303

        cluster = until(lambda: _answer(browser, "/api/v2/cluster"), lambda answer: bool(answer.get("nodes")))
        assert cluster["is_on"]
        page = browser.get("/ui/demonstrations").text
        assert "/ui/tasks/demonstration" in page and "Set up training" not in page
        assert browser.post("/ui/tasks/demonstration").status_code == 303
        tasks = until(lambda: _answer(browser, "/api/v2/tasks"), lambda answer: _state(answer) == "SUCCEEDED")
        assert len(tasks["tasks"]) == 1
        assert stack.pids("valkey-server") == valkey  # jobs are not reset
    assert stack.pids("raylet")
    stack.close()
    assert not stack.pids("ray")


def _answer(browser: httpx.Client, path: str) -> dict[str, Any]:
    """Returns nothing while the web restarts."""
    try:
        return dict(browser.get(path).json())
    except httpx.TransportError:
        return {}


def _state(answer: dict[str, Any]) -> str:
    return str(answer["tasks"][0]["state"]) if answer.get("tasks") else ""
