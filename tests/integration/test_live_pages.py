"""Open pages hear of changes by a stream, without asking; and where there is no stream they ask now and then."""

from __future__ import annotations

import html
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette

from app.bootstrap.container import Container
from app.conversion.model import JobRecord, Stage, claimed, submitted
from app.conversion.options import Options
from app.demonstrations.service import DemoName
from app.joint_inference.calibration import store as calibrations
from app.joint_inference.calibration.model import Calibration, CalibrationRequest, State
from app.kit.clock import now, to_text
from app.main import create_app
from app.nodes.model import NodeReport, Side
from app.settings import Settings
from app.sweeps import store as sweeps
from app.sweeps.model import Entry, Sweep
from app.training import store
from app.training.model import Demand, NewTask, Workload
from app.training.service import ClusterPicture, ClusterView
from tests.harness.joint.deployment import resource
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S
from tests.harness.valkey import Valkey
from tests.harness.video.records import running_video
from tests.harness.web import served

USER = "local"
TASK = "task-1"
PLACES = {"edge": "edge0", "cloud": "cloud0", "small": "small", "big": "big"}
STREAM = re.compile(r'hx-sse:connect="([^"]+)"')
FRAGMENT = re.compile(r'hx-get="([^"]+)" hx-trigger="changed from:#[a-z-]+ throttle:\d+s, every \d+s"')


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Starlette:
    """With a cluster by name only."""
    return create_app(
        Settings(
            data_dir=tmp_path_factory.mktemp("live"),
            redis_url=shared_valkey.url(0),
            ray_address="http://127.0.0.1:1",
            secret_key=SecretStr("a secret"),
            port=free_port(),
        )
    )


@pytest.fixture(scope="module")
def client(web: Starlette) -> Iterator[httpx.Client]:
    with (
        served(web, web.state.container.settings.port) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False, headers={"Accept": "text/html"}) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def container(web: Starlette, client: httpx.Client) -> Container:
    return web.state.container  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Env:
    """A page, and what changes it. Where the fragment has no version it is sent whenever it is asked for."""

    page: str
    change: Callable[[], object]
    has_version: bool = True


def add_task(container: Container) -> None:
    with container.database.write() as conn:
        if store.get_task(conn, TASK) is None:
            new = NewTask(TASK, USER, Workload.SCRIPT, "workload: script\n", Demand(1, 1, 1))
            store.add_task(conn, new, to_text(now()))


def change_task(container: Container) -> None:
    with container.database.write() as conn:
        task = store.get_task(conn, TASK)
        assert task is not None
        store.change(conn, task, to_text(now()), error_summary=f"version {task.version}")


def tasks(container: Container) -> Env:
    add_task(container)
    return Env("/ui/tasks", lambda: change_task(container))


def task(container: Container) -> Env:
    add_task(container)
    return Env(f"/ui/tasks/{TASK}", lambda: change_task(container))


def cluster(container: Container) -> Env:
    picture, queued = ClusterPicture(container.redis), iter(range(1, 100))
    picture.put(ClusterView(to_text(now())))
    return Env("/ui/cluster", lambda: picture.put(ClusterView(to_text(now()), queued=next(queued))), False)


def services(container: Container) -> Env:
    container.joint.services.create(USER, resource("listed", **PLACES), now=now())
    return Env("/ui/services", lambda: container.joint.services.create(USER, resource("later", **PLACES), now=now()))


def service(container: Container) -> Env:
    container.joint.services.create(USER, resource("shown", **PLACES), now=now())
    change = lambda: container.joint.services.delete(USER, "default", "shown", now=now())  # noqa: E731
    return Env("/ui/services/default/shown", change)


def videos(container: Container) -> Env:
    job = running_video(container.video, USER, now=now())
    return Env("/ui/video", lambda: container.video.jobs.cancel(USER, job.uid, now=now()))


def video(container: Container) -> Env:
    job = running_video(container.video, USER, now=now())
    return Env(f"/ui/video/{job.uid}", lambda: container.video.jobs.cancel(USER, job.uid, now=now()))


def nodes(container: Container) -> Env:
    container.nodes.register("listed", Side.EDGE, now=now())
    return Env("/ui/nodes", lambda: container.nodes.register("later", Side.EDGE, now=now()), False)


def node(container: Container) -> Env:
    container.nodes.register("shown", Side.EDGE, now=now())
    report = NodeReport(cpu=12.0)
    change = lambda: container.nodes.report("shown", report, address="127.0.0.1", version="1", now=now())  # noqa: E731
    return Env("/ui/nodes/shown", change, False)


def begun_job(container: Container) -> JobRecord:
    at, job_id = now(), str(uuid.uuid4())
    record = submitted(
        job_id, now=to_text(at), owner=USER, name="moving", tags=(), options=Options(), inputs={}, intake={}
    )
    container.store.create(record, score=at.timestamp() * 1e6)
    return record


def jobs(container: Container) -> Env:
    record = begun_job(container)
    change = lambda: container.store.apply(record.job_id, claimed(Stage.ONNX, worker="w/onnx/0"))  # noqa: E731
    return Env("/ui/jobs", change, False)


def system(container: Container) -> Env:
    return Env("/ui/system", lambda: begun_job(container), False)


def sweep(container: Container) -> Env:
    made = Sweep(uuid.uuid4().hex, USER, "methods", (), to_text(now()))
    entry = Entry(made.sweep_id, 0, str(uuid.uuid4()), "model", "model.onnx", "images.zip", "plain", {})
    with container.database.write() as conn:
        sweeps.add(conn, made, [entry])
    return Env(f"/ui/sweeps/{made.sweep_id}", lambda: container.sweeps.cancel(USER, made.sweep_id), False)


def calibration(container: Container) -> Env:
    request = CalibrationRequest("default", "faces", "small", "big", "set.npz", 1)
    made = Calibration(uuid.uuid4().hex, USER, to_text(now()), State.RUNNING, request)
    with container.database.write() as conn:
        calibrations.add(conn, made)

    def go_on() -> None:
        with container.database.write() as conn:
            calibrations.change(conn, made.calibration_id, progress=50)

    return Env(f"/ui/calibrations/{made.calibration_id}", go_on)


def demonstrations(container: Container) -> Env:
    nobody = "http://127.0.0.1:9"
    return Env("/ui/demonstrations", lambda: container.demonstrations.start(DemoName.VIDEO, nobody))


SCENES = (
    *(tasks, task, cluster),
    *(services, service, calibration),
    *(videos, video, nodes, node),
    *(jobs, system, sweep, demonstrations),
)


@pytest.mark.parametrize("of", SCENES)
def test_a_change_is_told_without_a_question_and_a_question_is_answered_without_a_stream(
    client: httpx.Client, container: Container, of: Callable[[Container], Env]
) -> None:
    env = of(container)
    page = client.get(env.page)
    stream, fragment = STREAM.search(page.text), FRAGMENT.search(page.text)
    assert page.status_code == 200 and stream and fragment
    url = html.unescape(fragment[1])
    answer = client.get(url)
    if env.has_version and answer.status_code == 200:  # a quarter of a minute was over: its bars have grown
        grown = FRAGMENT.search(answer.text)
        assert grown
        url = html.unescape(grown[1])
        answer = client.get(url)
    assert answer.status_code == (204 if env.has_version else 200)
    assert client.head(stream[1]).headers["content-type"].startswith("text/event-stream")
    with client.stream("GET", stream[1]) as answer:
        change = threading.Timer(0.3, env.change)
        change.start()
        told = next(line for line in answer.iter_lines() if line.startswith("event:"))
        change.join()
    assert told == "event: changed"
    assert client.get(url).status_code == 200


@pytest.mark.parametrize(
    "page",
    [
        *("/ui/tasks/none", "/ui/services/default/none", "/ui/video/none", "/ui/nodes/none"),
        *("/ui/sweeps/none", "/ui/calibrations/none"),
    ],
)
def test_of_what_a_user_cannot_see_there_is_no_stream(client: httpx.Client, page: str) -> None:
    assert client.get(f"{page}/events").status_code == 404
