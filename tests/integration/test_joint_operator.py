"""The operator, run by kopf against an API server that keeps its objects in memory: what is created in the cluster runs
here, and the cluster sees how it is. The same through both interfaces."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import kmock as kmock_library
import kopf
import pytest
import yaml

from app.bootstrap.container import Container
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.k8s_operator.handlers import registry_of, settings_of
from app.joint_inference.k8s_operator.mirror import Mirror, is_news, merge_patch, without_theirs
from app.joint_inference.model.resource import KIND, PLURAL, SINGULAR
from app.joint_inference.service.task_info import read_status
from app.kit.cli.command import Exit
from app.settings import Settings
from tests.harness.api import classifying_model
from tests.harness.command_line import begin
from tests.harness.forked import Forked
from tests.harness.joint.nodes import USER, Env, helmet
from tests.harness.kubernetes import SAMPLE
from tests.harness.until import PATIENCE_S, until_async
from tests.harness.users import Within, within
from tests.harness.variants import exhaustive

pytestmark = [
    pytest.mark.asyncio,
    # What kopf and the cancelled connections leave may be collected in the middle of the test that left it.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
RESOURCE = f"neptune.io/v1alpha1/{PLURAL}"
PATH = f"/apis/neptune.io/v1alpha1/namespaces/default/{PLURAL}"
Cluster = kmock_library.KubernetesEmulator


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """kopf leaves HTTP sessions to the collector, which warns of them: here, and not in the middle of another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)


@pytest.fixture
def cluster(kmock: Cluster) -> Cluster:
    """With the CRD, and what kopf looks at to know that it is there."""
    verbs = {"list", "watch", "get", "create", "patch", "delete"}
    kmock.resources[RESOURCE] = {
        "kind": KIND,
        "singular": SINGULAR,
        "namespaced": True,
        "verbs": verbs,
        "subresources": {"status"},
    }
    kmock.resources["v1/namespaces"] = {"kind": "Namespace", "namespaced": False, "verbs": verbs}
    kmock.resources["apiextensions.k8s.io/v1/customresourcedefinitions"] = {
        "kind": "CustomResourceDefinition",
        "namespaced": False,
        "verbs": verbs,
    }
    return kmock


@asynccontextmanager
async def operator(cluster: Cluster, env: Env) -> AsyncIterator[None]:
    """It runs as long as the block, and is cancelled then: told to stop, kopf waits five seconds for all tasks of the
    loop, among which are the cluster's. The command's own process is told."""
    registry = registry_of(Mirror(env.container.joint.services, env.user), look_s=0.2)

    @kopf.on.login(registry=registry)
    def log_in(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=str(cluster.url))

    settings = settings_of()
    settings.process.ultimate_exiting_timeout = None  # otherwise kopf kills the process that runs the tests
    ready = asyncio.Event()
    running = asyncio.create_task(
        kopf.operator(registry=registry, settings=settings, clusterwide=True, ready_flag=ready)
    )
    try:
        await asyncio.wait_for(ready.wait(), PATIENCE_S)
        yield
    finally:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE_S)


def created(resource: dict[str, Any], *, uid: str = "c0ffee") -> dict[str, Any]:
    """As an API server makes it of what it is sent."""
    given = {"uid": uid, "generation": 1, "resourceVersion": "1", "creationTimestamp": "2026-11-01T12:00:00Z"}
    return {**resource, "metadata": {**resource["metadata"], **given}}


async def put(cluster: Cluster, resource: dict[str, Any]) -> None:
    """Create it, or replace its spec as the API server does: by a higher generation."""
    name = resource["metadata"]["name"]
    known = seen(cluster, name)
    if known is None:
        answer = await cluster.post(PATH, json=created(resource))
    else:
        metadata = {"generation": known["metadata"]["generation"] + 1}
        answer = await cluster.patch(f"{PATH}/{name}", json={"metadata": metadata, "spec": resource["spec"]})
    assert answer.status == 200, await answer.text()


def seen(cluster: Cluster, name: str = "helmet") -> dict[str, Any] | None:
    """As the cluster has it now."""
    try:
        resource = cluster.objects[RESOURCE, "default", name]
    except KeyError:
        return None
    return None if resource.deleted else copy.deepcopy(resource.raw)


def status_in(cluster: Cluster) -> dict[str, Any]:
    return (seen(cluster) or {}).get("status") or {}


def current(status: dict[str, Any]) -> tuple[str, str]:
    conditions = status.get("conditions")
    return (conditions[-1]["type"], conditions[-1]["reason"]) if conditions else ("", "")


def here(env: Env) -> list[str]:
    return [service.name for service in env.container.joint.services.all(env.user)[0]]


def generation(env: Env) -> int:
    return env.container.joint.services.get(env.user, "default", "helmet").generation


# --- a life ---------------------------------------------------------------------------------------
async def test_what_is_created_in_the_cluster_runs_here_and_goes_when_it_is_deleted_there(
    cluster: Cluster, env: Env
) -> None:
    async with operator(cluster, env):
        await put(cluster, helmet())
        await until_async(lambda: here(env) == ["helmet"])
        env.settle()
        await until_async(lambda: current(status_in(cluster)) == ("Running", "Serving"))
        assert status_in(cluster)["active"] == 2

        changed = helmet(algorithm="CrossEntropy")
        await put(cluster, changed)
        await until_async(lambda: generation(env) == 2)
        assert env.container.joint.services.get(USER, "default", "helmet").spec == changed["spec"]

        env.go_away("edge0")
        await cluster.delete(f"{PATH}/helmet")
        await until_async(lambda: env.container.joint.services.get(USER, "default", "helmet").deleted_at)
        env.settle()
        await asyncio.sleep(0.5)
        assert seen(cluster) is not None, "it went before its worker had ended"
        env.come_back("edge0")
        env.settle()
        await until_async(lambda: seen(cluster) is None)
        assert here(env) == []


async def test_the_requirements_sample_is_taken_as_it_is(cluster: Cluster, env: Env) -> None:
    sample = yaml.safe_load(SAMPLE.read_text())
    async with operator(cluster, env):
        await put(cluster, sample)
        await until_async(lambda: here(env) == ["helmet-detection-demo"])
        env.settle()
        resource = await until_async(lambda: seen(cluster, "helmet-detection-demo"), running)
    service = env.container.joint.services.get(USER, "default", "helmet-detection-demo")
    assert service.spec == resource["spec"] == sample["spec"]


def running(resource: dict[str, Any]) -> bool:
    return current(resource.get("status") or {}) == ("Running", "Serving")


async def test_what_is_no_service_is_failed_and_the_next_one_is_taken_all_the_same(cluster: Cluster, env: Env) -> None:
    wrong = helmet()
    del wrong["spec"]["edgeWorker"]["nodeName"]
    async with operator(cluster, env):
        await put(cluster, wrong)
        await until_async(lambda: current(status_in(cluster)) == ("Failed", "InvalidResource"))
        assert "nodeName" in status_in(cluster)["conditions"][-1]["message"]
        assert here(env) == []
        await put(cluster, helmet())
        await until_async(lambda: here(env))
        env.settle()
        await until_async(lambda: current(status_in(cluster)) == ("Running", "Serving"))


async def test_a_change_that_is_no_service_leaves_the_one_before_as_it_was(cluster: Cluster, env: Env) -> None:
    wrong = helmet()
    wrong["spec"]["cloudWorker"]["model"] = {"name": 7}
    async with operator(cluster, env):
        await put(cluster, helmet())
        await until_async(lambda: here(env))
        env.settle()
        await put(cluster, wrong)
        await until_async(lambda: current(status_in(cluster)) == ("Failed", "InvalidResource"))
        assert "goes on as it was" in status_in(cluster)["conditions"][-1]["message"]
        assert status_in(cluster)["active"] == 2
        assert generation(env) == 1


async def test_a_decoder_that_cannot_read_its_model_is_refused_until_the_model_is_another(env: Env) -> None:
    models, resource = env.container.models, helmet()
    resource["metadata"] |= {"uid": "1", "generation": 1}
    resource["spec"]["edgeWorker"]["workerSpec"]["parameters"] = [{"key": "decoder", "value": "classifier"}]
    for name, classes in (("small-model", 1), ("big-model", 3)):
        models.remove(USER, name)
        models.add_upload(USER, name, [classifying_model(classes)], now=env.now)
    mirror = Mirror(env.container.joint.services, USER)
    mirror.take(resource, now=env.now)
    status = mirror.status_for(resource, now=env.now)
    assert status is not None and current(status) == ("Failed", "BadParameters")
    assert here(env) == []
    models.remove(USER, "small-model")
    models.add_upload(USER, "small-model", [classifying_model(3)], now=env.now)
    mirror.status_for(resource, now=env.now)
    assert here(env) == ["helmet"]


async def test_what_was_created_while_no_operator_ran_is_found_when_one_starts(cluster: Cluster, env: Env) -> None:
    await put(cluster, helmet())
    async with operator(cluster, env):
        await until_async(lambda: here(env) == ["helmet"])


async def test_what_is_deleted_here_while_the_cluster_wants_it_is_made_anew(cluster: Cluster, env: Env) -> None:
    async with operator(cluster, env):
        await put(cluster, helmet())
        await until_async(lambda: here(env))
        services = env.container.joint.services
        uid = services.get(USER, "default", "helmet").uid
        services.delete(USER, "default", "helmet", now=env.now)
        env.settle()

        def again() -> bool:
            try:
                return services.get(USER, "default", "helmet").uid != uid
            except ServiceNotFound:
                return False

        await until_async(again)


async def test_who_watches_is_not_woken_by_a_heartbeat_alone_until_a_minute_has_gone_by() -> None:
    def status(heartbeat: str, reason: str = "Serving") -> dict[str, Any]:
        return {"conditions": [{"type": "Running", "reason": reason, "lastHeartbeatTime": heartbeat}]}

    before = status("2026-11-01T12:00:00.000Z")
    assert not is_news(before, status("2026-11-01T12:00:59.000Z"))
    assert is_news(before, status("2026-11-01T12:01:00.000Z"))
    assert is_news(before, status("2026-11-01T12:00:01.000Z", reason="Degraded"))
    assert not is_news(before, {})


async def test_what_the_cluster_and_its_tools_keep_on_a_resource_is_not_the_services() -> None:
    resource = created(helmet())
    tools = {"modelmill.neptune.io/last-handled-configuration": "{}", "kubectl.kubernetes.io/last-applied": "{}"}
    resource["metadata"] |= {"annotations": {**tools, "team": "vision"}, "finalizers": ["modelmill.neptune.io/workers"]}
    resource["status"] = {"active": 2}
    spec = {**helmet(), "metadata": {"name": "helmet", "namespace": "default", "annotations": {"team": "vision"}}}
    assert without_theirs(resource) == spec


async def test_what_a_status_has_no_more_is_taken_out_of_the_cluster() -> None:
    assert merge_patch({"active": 1, "metrics": []}, {"active": 2}) == {"active": 2, "metrics": None}


async def test_the_command_takes_over_what_the_kubeconfigs_cluster_holds_and_ends_when_it_is_told_to(
    cluster: Cluster, env: Env, tmp_path: Path
) -> None:
    """All of them: kmock cannot list namespaces, which kopf does for a single one."""
    async with command(cluster, env, tmp_path, "--user", USER, "--all-namespaces") as process:
        await put(cluster, helmet())
        await until_async(lambda: here(env) == ["helmet"])
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0


@pytest.mark.parametrize(("key", "stderr"), [("another", b"another secret key"), *exhaustive(("", b"has no key"))])
async def test_the_command_ends_at_once_without_the_key_of_the_installation(
    cluster: Cluster, env: Env, tmp_path: Path, key: str, stderr: bytes
) -> None:
    async with command(cluster, env, tmp_path, "--user", USER, "--all-namespaces", key=key) as process:
        assert await asyncio.to_thread(process.wait, PATIENCE_S) not in (0, None)
    assert stderr in (tmp_path / "operator.log").read_bytes()


async def test_the_command_refuses_a_user_whom_nobody_knows(cluster: Cluster, env: Env, tmp_path: Path) -> None:
    async with command(cluster, env, tmp_path, "--user", "nobody", "--all-namespaces") as process:
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == Exit.NOT_FOUND


@asynccontextmanager
async def command(
    cluster: Cluster, env: Env, folder: Path, *options: str, key: str = "a secret"
) -> AsyncIterator[Forked]:
    """`modelmill joint operator`, on the store of the env."""
    settings = env.container.settings
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [context],
        "clusters": [{"name": "c", "cluster": {"server": str(cluster.url).rstrip("/")}}],
        "users": [{"name": "u", "user": {}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    environment = {
        **os.environ,
        "KUBECONFIG": str(folder / "kubeconfig"),
        "MODELMILL_DATA_DIR": str(settings.data_dir),
        "MODELMILL_REDIS_URL": settings.redis_url,
        "MODELMILL_SECRET_KEY": key,
    }
    process = begin("joint", "operator", *options, environment=environment, log=folder / "operator.log")
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, PATIENCE_S)


# --- both interfaces ------------------------------------------------------------------------------
class Native:
    """The product's own API."""

    def __init__(self, web: Within) -> None:
        self.web = web

    async def put(self, resource: dict[str, Any]) -> None:
        answer = await asyncio.to_thread(self.web.post, "/api/v2/services?apply=true", json=resource)
        assert answer.status_code in (200, 201), answer.text

    async def delete(self) -> None:
        answer = await asyncio.to_thread(self.web.request, "DELETE", "/api/v2/services/default/helmet")
        assert answer.status_code == 202, answer.text

    async def status(self) -> dict[str, Any] | None:
        answer = await asyncio.to_thread(self.web.get, "/api/v2/services/default/helmet")
        return dict(answer.json()["resource"]["status"]) if answer.status_code == 200 else None


class InCluster:
    """The cluster's API, with the operator behind it."""

    def __init__(self, cluster: Cluster, env: Env) -> None:
        self.cluster = cluster
        self.env = env

    async def put(self, resource: dict[str, Any]) -> None:
        await put(self.cluster, resource)
        algorithm = resource["spec"]["edgeWorker"]["hardExampleAlgorithm"]["name"]
        await until_async(lambda: self._algorithm() == algorithm)

    async def delete(self) -> None:
        await self.cluster.delete(f"{PATH}/helmet")
        await until_async(lambda: self.env.container.joint.services.get(self.env.user, "default", "helmet").deleted_at)

    async def status(self) -> dict[str, Any] | None:
        return None if seen(self.cluster) is None else status_in(self.cluster)

    def _algorithm(self) -> str:
        if not here(self.env):
            return ""
        return self.env.container.joint.services.get(self.env.user, "default", "helmet").specification.hard_example


STORY = Path(__file__).parent / "joint_story.json"
"""What either interface must tell: the status after each step of a life."""
TASK_INFO = {
    "inferenceNumber": 1000,
    "hardExampleNumber": 100,
    "uploadCloudRatio": 0.1,
    "startTime": "2026-11-01T12:00:00.000Z",
    "updateTime": "2026-11-01T12:10:00.000Z",
}


async def life(interface: Native | InCluster, env: Env) -> list[dict[str, Any]]:
    """What the status says along the way, without times."""
    stages: list[tuple[Callable[[], Awaitable[None]], tuple[str, str], int]] = []

    async def create() -> None:
        await interface.put(helmet())

    async def count() -> None:
        body = {"phase": "inference", "status": "running", "output": {"models": [], "taskInfo": TASK_INFO}}
        service = env.container.joint.services.get(env.user, "default", "helmet")
        env.container.joint.reports.note(service.uid, read_status(body), now=env.now)

    async def change() -> None:
        await interface.put(helmet(algorithm="CrossEntropy"))

    async def break_edge() -> None:
        env.fail("edge", log=("Traceback", "ValueError: no"))

    async def heal() -> None:
        env.heal("edge")
        env.go_away("solar-corona-cloud")
        env.now += timedelta(minutes=1)

    stages += [(create, ("Running", "Serving"), 0), (count, ("Running", "Serving"), 3)]
    stages += [(change, ("Running", "Serving"), 3), (break_edge, ("Failed", "WorkerFailed"), 3)]
    stages += [(heal, ("Running", "NodeOffline"), 3)]
    seen_states = []
    for act, state, counted in stages:
        await act()
        env.settle()
        seen_states.append(timeless(await reached(interface, state, counted)))
    env.come_back("solar-corona-cloud")
    await interface.delete()
    env.settle()
    async with asyncio.timeout(PATIENCE_S):
        while await interface.status() is not None:
            await asyncio.sleep(0.05)
    return seen_states


async def reached(interface: Native | InCluster, state: tuple[str, str], counted: int) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while current(status := await interface.status() or {}) != state or len(status.get("metrics", ())) < counted:
            await asyncio.sleep(0.05)
    return status


def timeless(status: dict[str, Any]) -> dict[str, Any]:
    times = ("lastHeartbeatTime", "lastTransitionTime")
    conditions = [{k: v for k, v in entry.items() if k not in times} for entry in status["conditions"]]
    assert status["startTime"]
    return {**status, "conditions": conditions, "startTime": ""}


@pytest.mark.parametrize("interface", ["cluster", *exhaustive("native")])
async def test_through_both_interfaces_the_status_tells_the_same_story(
    interface: str, cluster: Cluster, container: Container, settings: Settings
) -> None:
    env = Env(container, user=settings.local_user)
    if interface == "native":
        with within(settings) as web:
            told = await life(Native(web), env)
    else:
        async with operator(cluster, env):
            told = await life(InCluster(cluster, env), env)
    assert json.dumps(told, indent=1, sort_keys=True) == STORY.read_text().rstrip()
