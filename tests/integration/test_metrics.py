"""GET /metrics: each figure is looked at after it was made to happen."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from app.bootstrap.container import Container
from app.conversion.metrics.collector import QUEUES
from tests.harness.api import Api, not_a_number_model, pngs, slow_job, small_model
from tests.harness.deployment import Deployment
from tests.harness.exposition import Figures, of_container
from tests.harness.operations import figures, reaches, submit
from tests.harness.until import until

pytestmark = pytest.mark.slow
TOKEN = "t0ken"
SECONDS = "modelmill_stage_duration_seconds"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Of our own: what others do at the same time would be in the figures."""
    with Deployment(tmp_path_factory.mktemp("counted")) as deployment:
        deployment.whole()
        yield deployment


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A web and nobody who works; its figures are for who has the token."""
    with Deployment(tmp_path_factory.mktemp("idle"), metrics_token=TOKEN) as deployment:
        deployment.web()
        yield deployment


@pytest.fixture
def idle_api(idle: Deployment) -> Iterator[Api]:
    with Api(idle.url) as client:
        client.http.auth = _with_token
        yield client
        for job_id in client.job_ids():
            client.http.post(f"/jobs/{job_id}/cancel")
            client.http.delete(f"/jobs/{job_id}")


def _with_token(request: httpx.Request) -> httpx.Request:
    if request.url.path == "/metrics":
        request.headers["Authorization"] = f"Bearer {TOKEN}"
    return request


# --- what is found at the moment of the scrape ------------------------------------------------------
def test_waiting_jobs_are_counted_and_the_first_of_them_grows_older(idle_api: Api) -> None:
    before = figures(idle_api)
    assert before.value("modelmill_queue_length") == 0
    assert before.value("modelmill_queue_oldest_age_seconds") == 0
    for _ in range(2):
        submit(idle_api)
    now = figures(idle_api)
    assert now.value("modelmill_queue_length", queue="onnx") == 2
    assert now.value("modelmill_queue_length") == 2
    assert now.value("modelmill_jobs", status="ONNX", state="queued") == 2
    assert now.value("modelmill_jobs_active") == 2
    age_s = now.value("modelmill_queue_oldest_age_seconds", queue="onnx")
    assert age_s > 0
    until(lambda: figures(idle_api).value("modelmill_queue_oldest_age_seconds", queue="onnx") > age_s)


def test_the_age_of_the_schedulers_queue_is_told_by_its_message(container: Container) -> None:
    container.conversion.dispatch.send_done(job_id="j", step="onnx", result="ok")
    container.conversion.dispatch.send_done(job_id="j", step="bie", result="ok")
    assert of_container(container).value("modelmill_queue_length", queue="done") == 2
    until(lambda: of_container(container).value("modelmill_queue_oldest_age_seconds", queue="done") > 0)


def test_workers_are_idle_or_busy_and_a_busy_one_is_a_running_job(api: Api, service: Deployment) -> None:
    assert [figures(api).value("modelmill_workers", queue=queue) for queue in QUEUES] == [1] * len(QUEUES)
    reaches(api, 1, "modelmill_workers", queue="bie", state="idle")
    job_id = api.start(*slow_job())
    reaches(api, 1, "modelmill_workers", queue="bie", state="busy")
    reaches(api, 0, "modelmill_workers", queue="bie", state="idle")
    reaches(api, 1, "modelmill_jobs", status="BIE", state="running")
    api.http.post(f"/jobs/{job_id}/cancel")
    reaches(api, 1, "modelmill_workers", queue="bie", state="idle")


def test_viewers_come_and_go(idle_api: Api) -> None:
    job_id = submit(idle_api)
    assert figures(idle_api).value("modelmill_sse_viewers") == 0
    with idle_api.http.stream("GET", f"/jobs/{job_id}/events"):
        reaches(idle_api, 1, "modelmill_sse_viewers")
    reaches(idle_api, 0, "modelmill_sse_viewers")


def test_a_scrape_asks_as_little_of_redis_for_ten_thousand_jobs_as_for_one(container: Container) -> None:
    def asked() -> dict[str, int]:
        container.redis.config_resetstat()
        of_container(container)
        calls = container.redis.info("commandstats")
        return {name: stat["calls"] for name, stat in calls.items() if name not in {"cmdstat_config|resetstat"}}

    queue, jobs = container.broker.list_key("bie"), [f"job-{n}" for n in range(10_000)]
    records, messages = container.redis.pipeline(), container.broker.client.pipeline()
    for job in jobs:
        records.hset(f"job:{job}", "bie.queued_at", "2026-01-01T00:00:00.000Z")
    records.zadd("jobs:active", dict.fromkeys(jobs, 0))
    messages.rpush(queue, *jobs[:1])
    container.store.announce("here/bie/0", '{"queue": "bie", "job_id": null}', 60)
    messages.execute()
    records.execute()
    of_container(container)
    with_one = asked()
    container.broker.client.rpush(queue, *jobs[1:])
    with_all = asked()
    assert of_container(container).value("modelmill_queue_length", queue="bie") == 10_000
    assert with_all == with_one
    assert sum(with_all.values()) < 25
    assert not {"cmdstat_scan", "cmdstat_keys", "cmdstat_lrange"} & set(with_all)


def test_without_redis_the_scrape_says_so_and_what_the_web_knows_by_itself(idle: Deployment, idle_api: Api) -> None:
    scrapes = {"method": "GET", "route": "/metrics", "status": "200"}
    before = figures(idle_api)
    assert before.value("modelmill_redis_up") == 1
    idle.valkey.kill()
    away = figures(idle_api)
    idle.valkey.start()
    assert away.value("modelmill_redis_up") == 0
    scraped = before.value("modelmill_http_requests_total", **scrapes)
    assert away.value("modelmill_http_requests_total", **scrapes) == scraped + 1
    assert "modelmill_redis_up" in away.families
    assert "modelmill_queue_length" not in away.families


# --- what workers and the scheduler counted ---------------------------------------------------------
def test_a_conversion_is_counted_and_each_of_its_stages_timed(api: Api, service: Deployment) -> None:
    names = ("modelmill_jobs_submitted_total", "modelmill_jobs_finished_total", "modelmill_stage_failures_total")
    job = api.convert(small_model(), pngs(3))
    assert job["status"] == "COMPLETED"
    before = _settled(api)
    began = {name: before.value(name) for name in names}
    assert api.convert(small_model(), pngs(3))["status"] == "COMPLETED"
    reaches(api, began["modelmill_jobs_submitted_total"] + 1, "modelmill_jobs_submitted_total")
    completed = before.value("modelmill_jobs_finished_total", status="COMPLETED")
    reaches(api, completed + 1, "modelmill_jobs_finished_total", status="COMPLETED")
    for stage in ("onnx", "bie", "nef"):
        of_stage = {"stage": stage, "toolchain": "host", "result": "ok"}
        count = before.value(f"{SECONDS}_count", **of_stage)
        reaches(api, count + 1, f"{SECONDS}_count", **of_stage)
        now = figures(api)
        assert now.value(f"{SECONDS}_bucket", le="+Inf", **of_stage) == count + 1
        assert now.value(f"{SECONDS}_sum", **of_stage) > before.value(f"{SECONDS}_sum", **of_stage)
    assert figures(api).value("modelmill_stage_failures_total") == began["modelmill_stage_failures_total"]


def _settled(api: Api) -> Figures:
    """The figures once every process has poured what is over: each in its own time, so one says nothing of the others.

    Each job is counted as sent and by `onnx`, and each that was completed by the rest.
    """
    sent = len(api.job_ids())

    def is_settled(figures: Figures) -> bool:
        done = figures.value("modelmill_jobs_finished_total", status="COMPLETED")
        begun = figures.value(f"{SECONDS}_count", stage="onnx")
        ended = [figures.value(f"{SECONDS}_count", stage=stage, result="ok") for stage in ("bie", "nef")]
        submitted = figures.value("modelmill_jobs_submitted_total")
        return (submitted, begun, ended) == (sent, sent, [done, done]) and done > 0

    return until(lambda: figures(api), is_settled)


def test_a_failed_stage_is_counted_by_its_cause(api: Api) -> None:
    assert api.convert(small_model(), pngs(3))["status"] == "COMPLETED"
    before = _settled(api)
    job = api.convert(not_a_number_model(), pngs(3))
    stage, code = job["error"]["step"], job["error"]["code"]
    assert (stage, code) == ("onnx", "STAGE_NOT_FINITE")
    for name, labels in (
        ("modelmill_stage_failures_total", {"stage": stage, "code": code}),
        ("modelmill_jobs_finished_total", {"status": "FAILED"}),
        (f"{SECONDS}_count", {"stage": stage, "toolchain": "host", "result": "fail"}),
    ):
        reaches(api, before.value(name, **labels) + 1, name, **labels)
    well = {"stage": stage, "result": "ok"}
    assert figures(api).value(f"{SECONDS}_count", **well) == before.value(f"{SECONDS}_count", **well)


def test_a_cancelled_job_is_a_failure_with_a_cause_of_its_own(idle_api: Api) -> None:
    labels = {"stage": "onnx", "code": "CANCELLED"}
    job_id = submit(idle_api)
    before = figures(idle_api).value("modelmill_stage_failures_total", **labels)
    assert idle_api.http.post(f"/jobs/{job_id}/cancel").status_code == 200
    until(lambda: figures(idle_api).value("modelmill_stage_failures_total", **labels) > before)


def test_operations_of_the_object_store_are_timed_and_their_failures_counted(container: Container) -> None:
    def value(name: str, **labels: str) -> float:
        container.exporter.pour()
        return of_container(container).value(name, **labels)

    container.objects.put("a/b", [b"x"])
    assert value("modelmill_object_store_duration_seconds_count", operation="put") == 1
    with pytest.raises(Exception, match="a/c"):
        container.objects.info("a/c")
    assert value("modelmill_object_store_duration_seconds_count", operation="info") == 1
    assert value("modelmill_object_store_errors_total", operation="info", code="OBJECT_NOT_FOUND") == 1
    assert value("modelmill_object_store_errors_total", operation="put") == 0


# --- requests ---------------------------------------------------------------------------------------
def test_requests_are_counted_by_the_template_of_their_route(idle_api: Api) -> None:
    job_id = submit(idle_api)
    before = figures(idle_api)
    for path in (f"/jobs/{job_id}", "/jobs/no-such-job", "/nowhere"):
        idle_api.http.get(path)
    now = figures(idle_api)

    def more(**labels: str) -> float:
        name = "modelmill_http_requests_total"
        return now.value(name, **labels) - before.value(name, **labels)

    assert more(method="GET", route="/jobs/{job_id}", status="200") == 1
    assert more(method="GET", route="/jobs/{job_id}", status="404") == 1
    assert more(method="GET", route="none", status="404") == 1
    assert not [s for f in now.families.values() for s in f.samples if job_id in str(s.labels)]
    timed = {"method": "GET", "route": "/jobs/{job_id}"}
    name = "modelmill_http_request_duration_seconds_count"
    assert now.value(name, **timed) - before.value(name, **timed) == 2


def test_with_a_token_only_its_bearers_read_the_figures(idle: Deployment) -> None:
    for header in ("", "Bearer wrong", f"Basic {TOKEN}", "Bearer"):
        answer = httpx.get(f"{idle.url}/metrics", headers={"Authorization": header})
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "modelmill_redis_up" not in answer.text
    answer = httpx.get(f"{idle.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert "modelmill_redis_up" in answer.text
    assert httpx.get(f"{idle.url}/healthz").status_code == 200
