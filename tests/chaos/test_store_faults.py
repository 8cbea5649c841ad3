"""An object store that is away, silent, slow or full while a stage takes its inputs from it or gives it its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from minio import Minio

from app.conversion.stages import transfer_retry
from tests.harness.faults.backend_deployment import BackendDeployment
from tests.harness.faults.deployment import Job, WorkerProcess
from tests.harness.faults.invariants import assert_recovered
from tests.harness.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.until import until

pytestmark = [pytest.mark.slow]
MIB = 1 << 20
OUTAGE_S, HALF_A_MINUTE_S = 20.0, 31.0
SILENCE_S = 2
AWAY = "The S3 server cannot be reached"


@pytest.fixture(scope="module")
def shared_deployment(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackendDeployment]:
    """The web talks to the store directly; so do the workers, unless they are told to go by a proxy."""
    settings = {
        "store": "s3",
        "s3_endpoint": urlsplit(s3_server.endpoint).netloc,
        "s3_access_key": ACCESS_KEY,
        "s3_secret_key": SECRET_KEY,
        "s3_bucket": f"chaos-{uuid4().hex[:12]}",
    }
    with BackendDeployment(tmp_path_factory.mktemp("store"), **settings) as made:
        yield made


@pytest.fixture
def proxies(s3_server: S3Server) -> Iterator[list[TcpProxy]]:
    port = urlsplit(s3_server.endpoint).port or 0
    with TcpProxy(port) as first, TcpProxy(port) as second, TcpProxy(port) as third:
        yield [first, second, third]


@dataclass(frozen=True)
class Behind:
    """A proxy, a worker that will upload through it when it is released, and one that will download.

    logged: how many characters of log each worker had before the outage.
    """

    proxy: TcpProxy
    uploading: Job
    downloading: Job
    workers: tuple[WorkerProcess, WorkerProcess]
    logged: tuple[int, int]

    def has_logged(self, deployment: BackendDeployment, text: str) -> bool:
        """Whether both workers have logged the text since the outage began."""
        return all(
            text in deployment.log(worker)[start:] for worker, start in zip(self.workers, self.logged, strict=True)
        )


def prepare(deployment: BackendDeployment, proxies: list[TcpProxy]) -> list[Behind]:
    """A group for each proxy. The workers of the last one count its server as silent after SILENCE_S."""
    uploading = jobs_behind(deployment, proxies, bie="grow:100000")
    until(lambda: all((job.notes / "grown").exists() for job, _ in uploading), what="they are about to upload")
    deployment.hold("after-take.bie")
    downloading = jobs_behind(deployment, proxies)
    return [
        Behind(
            proxy,
            upload,
            download,
            (uploader, downloader),
            (len(deployment.log(uploader)), len(deployment.log(downloader))),
        )
        for proxy, (upload, uploader), (download, downloader) in zip(proxies, uploading, downloading, strict=True)
    ]


def jobs_behind(deployment: BackendDeployment, proxies: list[TcpProxy], **plan: str) -> list[tuple[Job, WorkerProcess]]:
    """For each proxy a new worker that reaches the store by it, and the job that this worker has taken."""
    masters = [deployment.launch("bie", s3_endpoint=proxy.address) for proxy in proxies[:-1]]
    deployment.env["CHAOS_S3_READ_TIMEOUT_S"] = str(SILENCE_S)
    masters.append(deployment.launch("bie", s3_endpoint=proxies[-1].address))
    del deployment.env["CHAOS_S3_READ_TIMEOUT_S"]
    workers = deployment.living(*masters)
    jobs = [deployment.submit(**plan) for _ in proxies]
    until(lambda: all(deployment.runs(job) for job in jobs), what="each worker has its job")
    taken = {deployment.at_work(job).child: job for job in jobs}
    return [(taken[worker.child], worker) for worker in workers]


@pytest.fixture
def store_clock(deployment: BackendDeployment) -> Iterator[Callable[[float], None]]:
    """Sets the clock by which workers wait for the store, until the test ends."""
    yield deployment.set_store_clock
    deployment.set_store_clock(None)


@pytest.mark.s3
def test_an_outage_of_twenty_seconds_is_survived_and_one_of_more_than_half_a_minute_fails_the_job(
    deployment: BackendDeployment, proxies: list[TcpProxy], store_clock: Callable[[float], None]
) -> None:
    """Three outages at the same time, each of its own workers: a short one, a long one, and one without a word.

    Half a minute passes on a clock of the test, which is advanced when the workers have logged that they wait.
    """
    assert sum(transfer_retry.PAUSES_S) == HALF_A_MINUTE_S
    short, long, silent = groups = prepare(deployment, proxies)
    survivors = [short.uploading, short.downloading]
    lost = [long.uploading, long.downloading, silent.uploading, silent.downloading]
    passed_s = 0.0
    store_clock(passed_s)
    short.proxy.refuse()
    long.proxy.refuse()
    silent.proxy.fall_silent()
    deployment.release("after-take.bie")
    for group in groups:
        group.uploading.release()
    until(lambda: silent.has_logged(deployment, "The object store: "), what="the silence is noticed")
    for pause_s in transfer_retry.PAUSES_S:
        again = f"Again in {pause_s:g} s."
        until(lambda again=again: all(group.has_logged(deployment, again) for group in (short, long)), what=again)  # type: ignore[misc]
        passed_s = min(passed_s + pause_s, OUTAGE_S)
        store_clock(passed_s)
    assert not any(deployment.record(job).is_terminal for job in (*survivors, *lost))
    short.proxy.open()
    store_clock(2 * HALF_A_MINUTE_S)
    for job in survivors:
        until(lambda job=job: deployment.record(job).is_terminal, what="the outage is survived")  # type: ignore[misc]
    for job in lost:
        until(lambda job=job: deployment.record(job).is_terminal, what="the worker gives up")  # type: ignore[misc]
    for group in (long, silent):
        group.proxy.open()
    assert all(worker.is_alive() for group in groups for worker in group.workers)
    for error in deployment.failed(*lost):
        assert error["code"] == "STORE_UNAVAILABLE"
        assert error["reason"].startswith(AWAY)
        assert "Check that it runs" in error["hint"]
    shown = assert_recovered(deployment, survivors)
    assert {job["status"] for job in shown.values()} == {"COMPLETED"}, shown


@pytest.mark.exhaustive
@pytest.mark.s3
def test_a_store_from_which_bytes_trickle_makes_a_stage_slow_and_nothing_worse(
    deployment: BackendDeployment, proxies: list[TcpProxy]
) -> None:
    """Each transfer takes longer than a worker may be silent, but it is not."""
    proxy = proxies[0]
    worker = deployment.worker("bie", s3_endpoint=proxy.address)
    proxy.open(bytes_per_s=50_000)
    job = deployment.submit(bie="grow:300000", padding="x" * 200_000)
    job.release()
    while not deployment.record(job).is_terminal:
        deployment.container.conversion.dispatch.sweep()
        time.sleep(0.2)
    shown = assert_recovered(deployment, [job])
    assert shown[job.job_id]["status"] == "COMPLETED", shown[job.job_id]["error"]
    assert worker.is_alive()
    assert "The object store: " not in deployment.log(worker)


# --- full -------------------------------------------------------------------------------------------
@pytest.mark.s3
def test_an_s3_server_over_its_quota_fails_the_job_at_once_and_keeps_no_piece_of_the_result(
    deployment: BackendDeployment, s3_server: S3Server
) -> None:
    worker = deployment.worker("bie")
    bucket = deployment.given["s3_bucket"]
    scope = ["--quota-scope=bucket", f"--bucket={bucket}", "--uid=modelmill"]
    deployment.works_on()
    s3_server.administer("quota", "set", *scope, f"--max-size={4 * MIB}")
    s3_server.administer("quota", "enable", *scope)
    small, large = (
        deployment.submit(bie=f"grow:{size}") for size in (6 * MIB, 20 * MIB)
    )  # in one piece, and in several
    for job in (small, large):
        job.release()
    try:
        errors = deployment.failed(small, large)
    finally:
        s3_server.administer("quota", "disable", *scope)
    for error, job in zip(errors, (small, large), strict=True):
        assert error["code"] == "STORE_FULL"
        assert "The object store is full" in error["reason"]
        assert "quota" in error["hint"]
        assert deployment.results(job) == set()
    assert worker.is_alive()
    assert "The object store: The object store is full" not in deployment.log(worker), "waiting does not empty a store"
    client = Minio(deployment.given["s3_endpoint"], ACCESS_KEY, SECRET_KEY, secure=False)
    assert not client._list_multipart_uploads(bucket).uploads
