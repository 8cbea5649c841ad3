"""A service of its own for tests that look at it from the operator's side."""

from __future__ import annotations

import json
from typing import Any

from app.kit.backoff import GrowingPause
from tests.harness.api import Api, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.exposition import Figures
from tests.harness.until import until

PAUSES = GrowingPause(first_s=0.1, longest_s=0.5, growth=1.5)
"""Between two looks at all figures, which are many."""


def figures(api: Api) -> Figures:
    answer = api.http.get("/metrics")
    assert answer.status_code == 200
    return Figures(answer.text)


def reaches(api: Api, expected: float, name: str, **labels: str) -> None:
    """Workers pour their figures every few seconds; wait for them."""
    until(lambda: figures(api).value(name, **labels), lambda value: value == expected, pauses=PAUSES)


def logged(deployment: Deployment) -> list[dict[str, Any]]:
    """Every whole line of all processes that was written in our form."""
    texts = [path.read_text() for path in sorted(deployment.folder.glob("*.log"))]
    lines = [line for text in texts for line in text.splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]


def submit(api: Api) -> str:
    return api.start(small_model(), pngs(3))
