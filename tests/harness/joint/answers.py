"""Services of pretended nodes, and what their workers have answered. Import the fixtures to have them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.inference.picture_codec import encode
from app.joint_inference.model.resource import Service
from app.joint_inference.service.row_report import RowReport
from tests.harness.joint.nodes import Env, helmet
from tests.harness.models.vision import plain
from tests.harness.users import Within, within
from tests.harness.valkey import Valkey
from tests.harness.video.web import settings_in

BEGIN = 1.79e9
JPEG = encode(plain(1, 2, 3, 320, 240))[0]
NUMBERS = count()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Iterator[Within]:
    """It may send to this machine."""
    settings = settings_in(tmp_path_factory.mktemp("web"), shared_valkey)
    with within(settings.model_copy(update={"notification_networks": "127.0.0.0/8"})) as made:
        yield made


@pytest.fixture(scope="module")
def env(web: Within) -> Env:
    container: Container = web.app.state.container
    return Env(container, user=container.settings.local_user)


@pytest.fixture
def service(env: Env) -> Iterator[Service]:
    name = f"door-{next(NUMBERS)}"
    made = env.container.joint.services.create(env.user, helmet(name), now=env.now)
    env.settle()
    yield made
    env.container.joint.services.delete(env.user, "default", name, now=env.now)
    env.settle()


def row(n: int) -> dict[str, Any]:
    labels = ["person"] if n % 2 == 0 else []
    return {
        "at": BEGIN + n,
        "size": [640, 480],
        "bbox": [[1.0, 2.0, 30.0, 40.0]] * len(labels),
        "labels": labels,
        "scores": [0.9] * len(labels),
        "sample": f"{n:08d}",
        "answered_by": "cloud" if n % 3 == 0 else "edge",
        "is_hard": n % 3 == 0,
        "model_name": "big" if n % 3 == 0 else "small",
        "model_version": 2,
    }


def take(env: Env, service: Service, run: str, batch: int, *numbers: int, node: str = "edge0") -> None:
    report = RowReport(run=run, batch=batch, rows=[row(n) for n in numbers])
    env.container.joint.reports.add_rows(node, service.uid, report, now=env.now)


def place_of(service: Service) -> str:
    return f"/api/v2/services/{service.namespace}/{service.name}"
