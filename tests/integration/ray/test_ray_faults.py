"""The gateway when Ray is down, silent, somebody else, or has lost a node or its memory."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.training.errors import RayUnreachable
from app.training.gateway import Gateway, RayStatus
from app.training.gateway.ray_gateway import RayGateway, RayOptions
from tests.harness.ray_cluster import RayCluster, running_cluster
from tests.harness.training.ray_jobs import EVERY_CALL, SHORT_S, ended, new_id, reaching, submitted, unreachable
from tests.harness.until import until

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def every_call_fails(options: RayOptions) -> dict[str, str]:
    """All at once, each of a gateway of its own, for each waits as long as it may. Name of the call → what it says."""

    def said(call: Callable[[Gateway], object]) -> str:
        gateway = RayGateway(options)
        try:
            return unreachable(lambda: call(gateway)).message
        finally:
            gateway.close()

    with ThreadPoolExecutor(len(EVERY_CALL)) as pool:
        return dict(zip(EVERY_CALL, pool.map(said, EVERY_CALL.values()), strict=True))


def test_where_nothing_listens_ray_is_unreachable():
    messages = every_call_fails(RayOptions("http://127.0.0.1:1", "127.0.0.1:1", timeout_s=SHORT_S))
    assert [name for name in EVERY_CALL if "127.0.0.1:1" not in messages[name]] == []


def test_where_connections_are_taken_and_nothing_is_said_ray_is_unreachable():
    with socket.create_server(("127.0.0.1", 0), backlog=2 * len(EVERY_CALL)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        messages = every_call_fails(RayOptions(f"http://{address}", address, timeout_s=SHORT_S))
    assert [name for name in EVERY_CALL if "no answer in time" not in messages[name]] == []


def test_what_is_no_job_server_does_not_say_that_a_job_is_gone(tmp_path):
    """Its 404 would otherwise end every task."""
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(tmp_path), "0"]
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "version").write_text('{"ray_version": "2.60.0", "version": "4"}')
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PYTHONUNBUFFERED": "1"}
    ) as server:
        assert server.stdout
        port = int(server.stdout.readline().split()[5])
        gateway = RayGateway(RayOptions(f"http://127.0.0.1:{port}", "127.0.0.1:1", timeout_s=SHORT_S))
        unreachable(lambda: gateway.job(new_id()))
        server.kill()


def test_a_token_is_shown_to_nobody():
    assert "a-token" not in repr(RayOptions("http://127.0.0.1:1", "127.0.0.1:1", "a-token"))


# --- what happens to a cluster, and passes ----------------------------------------------------------
@pytest.fixture
def patient(ray_cluster: RayCluster) -> Iterator[RayGateway]:
    made = RayGateway(ray_cluster.options())
    yield made
    made.close()


@pytest.fixture
def impatient(ray_cluster: RayCluster) -> Iterator[RayGateway]:
    made = RayGateway(ray_cluster.options(timeout_s=SHORT_S))
    yield made
    made.close()


def test_while_the_head_stands_still_ray_is_unreachable(ray_cluster, patient, impatient):
    assert len(patient.nodes()) == 3
    assert patient.job(new_id()) is None
    with ray_cluster.stalled_head():
        every_call_fails(ray_cluster.options(timeout_s=SHORT_S))
    assert until(lambda: answers(impatient))


@pytest.mark.exhaustive
def test_a_gcs_that_died_behind_a_dashboard_that_lives_does_not_say_that_a_job_is_gone(ray_cluster, patient, impatient):
    submission_id = submitted(patient, "sleep 1000")
    reaching(patient, submission_id, RayStatus.RUNNING)
    ray_cluster.signal_head("gcs_server", signal.SIGSTOP)
    try:
        unreachable(lambda: impatient.job(submission_id))
        unreachable(impatient.nodes)
    finally:
        ray_cluster.signal_head("gcs_server", signal.SIGCONT)
    until(lambda: answers(impatient))
    patient.stop(submission_id)
    assert ended(patient, submission_id).status is RayStatus.STOPPED


def answers(gateway: Gateway) -> bool:
    try:
        return gateway.job(new_id()) is None and len(gateway.nodes()) > 0
    except RayUnreachable:
        return False


@pytest.fixture
def mended(ray_cluster: RayCluster) -> Iterator[RayCluster]:
    """Whole again for the tests after this one."""
    yield ray_cluster
    ray_cluster.wait_until_ready()


def test_when_a_raylet_is_killed_its_job_fails_its_log_is_gone_and_its_node_too(mended, patient):
    submission_id = submitted(patient, "echo something; sleep 1000")
    job = reaching(patient, submission_id, RayStatus.RUNNING)
    until(lambda: b"something" in patient.log_tail(job, 10))

    mended.kill_raylet(of=job.driver_node_id)

    job = ended(patient, submission_id)
    assert (job.status, job.error_type, job.exit_code) == (RayStatus.FAILED, "JOB_SUPERVISOR_ACTOR_DIED", None)
    assert patient.log_tail(job, 10) == b""
    assert list(patient.log(job)) == []
    until(patient.nodes, lambda nodes: len(nodes) == 2)


# --- a cluster of their own, with a token ------------------------------------------------------------
@pytest.fixture
def frail_cluster() -> Iterator[RayCluster]:
    with running_cluster(token="a-token-of-this-cluster") as cluster:
        yield cluster


@pytest.fixture
def frail(frail_cluster: RayCluster) -> Iterator[RayGateway]:
    made = RayGateway(frail_cluster.options(timeout_s=10))
    yield made
    made.close()


@pytest.mark.exhaustive
def test_a_head_that_was_restarted_without_its_memory_knows_no_old_job_and_takes_new_ones(frail_cluster, frail):
    submission_id = submitted(frail, "sleep 1000")
    frail_cluster.kill_head()
    unreachable(lambda: frail.job(submission_id))
    unreachable(frail.nodes)

    frail_cluster.restart()

    assert frail.job(submission_id) is None
    assert sum(node.may_train for node in frail.nodes()) == 1
    assert ended(frail, submitted(frail, "true")).status is RayStatus.SUCCEEDED


@pytest.mark.exhaustive
def test_a_token_that_something_has_left_in_the_home_closes_no_cluster_that_has_none(tmp_path):
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    with running_cluster([(1, 1)], environment={"HOME": str(tmp_path)}) as cluster:
        gateway = RayGateway(cluster.options())
        assert ended(gateway, submitted(gateway, "true")).status is RayStatus.SUCCEEDED
        gateway.close()
