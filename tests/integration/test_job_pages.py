"""The pages of jobs, as a browser without JavaScript and as htmx see them."""

from __future__ import annotations

import io
import json
import re
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from app.bootstrap.container import Container
from app.conversion import model
from app.conversion.model import JobError, JobRecord, Stage, StageRecord, StageState, Status
from app.conversion.model.job_filter import parse
from app.conversion.options import Chip, Options, ToolchainName
from app.conversion.pages.job_list import PAGE_JOBS
from app.conversion.store import JobStore
from app.kit.clock import now, to_text
from tests.harness.api import Api, has_ended, pngs, small_model, store_of
from tests.harness.deployment import Deployment
from tests.harness.until import until

OURS = {"Sec-Fetch-Site": "same-origin"}
HTMX = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def finished(service: Deployment) -> dict[str, Any]:
    with Api(service.url) as api:
        return api.wait(api.start(small_model(), pngs(3), name="first <b>light</b>", tags=["alpha"]), has_ended)


@pytest.fixture
def web(service: Deployment) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False, headers={"Accept": "text/html"}) as client:
        yield client


def put_job(
    service: Deployment, name: str, *, options: Options | None = None, moment: datetime | None = None
) -> tuple[JobStore, JobRecord]:
    """A job that is known but on no queue, so that it stays where the test puts it."""
    store = JobStore(service.redis, record_ttl_s=3600, live_log_bytes=1 << 20)
    moment = moment or now()
    record = model.submitted(
        str(uuid.uuid4()),
        now=to_text(moment),
        owner="local",
        name=name,
        tags=("beta",),
        options=options or Options(),
        inputs={},
        intake={},
    )
    store.create(record, score=int(moment.timestamp() * 1_000_000))
    return store, record


def test_the_list_shows_jobs_and_escapes_their_names(web: httpx.Client, finished: dict[str, Any]) -> None:
    page = web.get("/ui/jobs").text
    assert f'href="/ui/jobs/{finished["job_id"]}"' in page
    assert "first &lt;b&gt;light&lt;/b&gt;" in page and "<b>light" not in page
    assert "Converted" in page and '<span class="tag">alpha</span>' in page


@pytest.mark.parametrize(
    ("passed", "snr_db", "verdict", "badge", "title"),
    [
        (False, 12.71, "BELOW_RULE", 'bad verdict-badge">Converted · below 20 dB', "⚠ 12.7 dB, below the rule"),
        (True, 45.0, "PASSED", 'ok verdict-badge">Converted', "✓ 45.0 dB"),
        (None, None, None, 'wait verdict-badge">Converted · not measured', "✓"),
    ],
)
def test_a_completed_job_is_green_only_where_its_quality_keeps_the_rule(
    web: httpx.Client,
    service: Deployment,
    passed: bool | None,
    snr_db: float | None,
    verdict: str,
    badge: str,
    title: str,
) -> None:
    name = f"judged {uuid.uuid4()}"
    store, record = put_completed(service, name, {"passed": passed, "snr_db": snr_db})
    job_id, is_below = record.job_id, verdict == "BELOW_RULE"
    rows = web.get("/ui/jobs", params={"q": name}).text
    page, fragment = web.get(f"/ui/jobs/{job_id}").text, web.get(f"/ui/jobs/{job_id}/live?seen=x", headers=HTMX).text
    for text in (rows, page, fragment):
        assert re.findall(r'<span class="badge ([a-z]+ verdict-badge">Converted.*?)</span>', text) == [badge]
    assert ("snr is-below" in rows) is is_below
    for text in (page, fragment):
        assert f"<title>{title} · {name} · Modelmill</title>" in text
    assert web.get(f"/jobs/{job_id}").json()["verdict"] == verdict
    sides = web.get("/ui/jobs/compare", params={"a": job_id, "b": job_id}).text
    assert sides.count(badge) == 2
    store.delete(job_id)


def put_completed(service: Deployment, name: str, measured: dict[str, Any]) -> tuple[JobStore, JobRecord]:
    store, record = put_job(service, name)
    store.delete(record.job_id)
    done = {step: StageRecord(state=StageState.DONE, progress=100) for step in record.stages}
    done["bie"] = replace(done["bie"], summary=measured)
    made = replace(record, status=Status.COMPLETED, stage=Stage.NEF, finished_at=record.created_at, stages=done)
    store.create(made, score=int(now().timestamp() * 1_000_000))
    return store, made


def test_filters_are_a_plain_form(web: httpx.Client, finished: dict[str, Any]) -> None:
    link = f'href="/ui/jobs/{finished["job_id"]}"'
    for query, is_found in (
        ("q=LIGHT", True),
        ("q=tag:alpha+status:completed", True),
        ("q=status:failed", False),
        ("q=no+such+name", False),
        ("q=target:kl720", False),
    ):
        assert (link in web.get(f"/ui/jobs?{query}").text) is is_found, query
    assert "No job matches" in web.get("/ui/jobs?q=no+such+name").text


def test_a_filter_that_is_none_says_which_word_and_what_there_is(web: httpx.Client, finished: dict[str, Any]) -> None:
    wrong = web.get("/ui/jobs?q=status:sleeping")
    assert wrong.status_code == 422 and "There is no status &#39;sleeping&#39;" in wrong.text
    assert "cancelled" in wrong.text and 'aria-invalid="true"' in wrong.text and 'value="status:sleeping"' in wrong.text


def test_every_column_sorts_both_ways(web: httpx.Client, service: Deployment) -> None:
    measured = {"mm three": 30.0, "mm one": 10.0, "mm two": 20.0}
    made = [put_completed(service, name, {"passed": db >= 20, "snr_db": db}) for name, db in measured.items()]
    waiting = put_job(service, "mm none")[1]
    name = r"data-row-link>(mm \w+)<"
    for sort, order in (("snr", ["one", "two", "three", "none"]), ("name", ["none", "one", "three", "two"])):
        page = web.get(f"/ui/jobs?q=mm&sort={sort}").text
        assert re.findall(name, page) == [f"mm {word}" for word in order] and 'aria-sort="ascending"' in page
        turned = re.search(r'aria-sort="ascending"><a href="([^"]+)">', page)
        assert turned is not None
        back = re.findall(name, web.get(turned[1].replace("&amp;", "&")).text)
        assert back[0] == ("mm three" if sort == "snr" else "mm two")
        assert back[-1] == "mm none"
    for store, record in [*made, (made[0][0], waiting)]:
        store.delete(record.job_id)


def test_tabs_count_and_a_saved_view_is_kept_and_removed(web: httpx.Client, service: Deployment) -> None:
    store, record = put_completed(service, "low", {"passed": False, "snr_db": 3.0})
    page = web.get("/ui/jobs?q=verdict:below").text
    count = re.search(r'aria-current="page">Below the rule <span class="count is-bad"><span class="num">(\d+)', page)
    assert count is not None and int(count[1]) >= 1
    saved = web.post("/ui/jobs/views", data={"name": "Bad <ones>", "q": "snr:<5"}, headers=OURS)
    assert saved.headers["location"] == "/ui/jobs?q=snr%3A%3C5" and "HttpOnly" in saved.headers["set-cookie"]
    page = web.get(saved.headers["location"]).text
    assert 'aria-current="page">Bad &lt;ones&gt;</a>' in page and "Remove the view" in page
    web.post("/ui/jobs/views", data={"name": "Bad <ones>", "q": "snr:<5", "action": "remove"}, headers=OURS)
    assert "Bad &lt;ones&gt;" not in web.get("/ui/jobs").text
    for number in range(8):
        web.post("/ui/jobs/views", data={"name": f"view {number}", "q": "a"}, headers=OURS)
    full = web.post("/ui/jobs/views", data={"name": "one more", "q": "a"}, headers=OURS)
    assert full.status_code == 400 and "8 views are the most" in full.text
    web.cookies.set("job_views", "not ours", domain=web.base_url.host, path="/ui")
    assert web.get("/ui/jobs").status_code == 200
    store.delete(record.job_id)


def test_the_list_tells_of_newer_jobs_that_the_filter_accepts(web: httpx.Client, service: Deployment) -> None:
    put_job(service, "herald one")
    match = re.search(r'id="jobs-live" hx-get="([^"]+)"', web.get("/ui/jobs?q=herald").text)
    assert match is not None
    url = match[1].replace("&amp;", "&")
    assert "new job" not in web.get(url, headers=HTMX).text
    put_job(service, "something else")
    assert "new job" not in web.get(url, headers=HTMX).text
    put_job(service, "herald two")
    assert "1 new job · show" in web.get(url, headers=HTMX).text


def test_the_navigation_says_how_many_jobs_run(web: httpx.Client, service: Deployment) -> None:
    def count() -> int:
        text = web.get("/ui/jobs/running", headers=HTMX).text.strip()
        return int(text.removesuffix(" running")) if text else 0

    with ExitStack() as standing_still:  # so that none ends that another test has left
        for process in service.processes[: len(Stage) + 1]:
            standing_still.enter_context(service.paused(process))
        before = count()
        store, record = put_job(service, "one more")
        assert count() == before + 1
        store.apply(record.job_id, model.cancelled(Stage.ONNX, now=to_text(now())))
        assert count() == before


def test_the_filter_is_completed_by_keys_values_and_words_of_jobs(web: httpx.Client, service: Deployment) -> None:
    put_job(service, "Zephyr net")
    for text, offered in (
        ("sta", "status:"),
        ("snr:<20 status:f", "snr:&lt;20 status:failed"),
        ("name:zep", "name:zephyr"),
        ("verdict:", "verdict:below"),
    ):
        assert f'value="{offered}"' in web.get("/ui/jobs/completions", params={"q": text}, headers=HTMX).text, text


def test_the_search_finds_jobs_pages_and_lists(web: httpx.Client, service: Deployment) -> None:
    _, record = put_job(service, "Quokka")
    for path, headers in (("/ui/search", {}), ("/ui/search/results", HTMX)):
        text = web.get(path, params={"q": "quok"}, headers=headers).text
        assert f'href="/ui/jobs/{record.job_id}"' in text and 'href="/ui/models?q=quok"' in text
        assert 'href="/ui/system"' in web.get(path, params={"q": "syst"}, headers=headers).text
    assert "There is no filter" in web.get("/ui/search/results", params={"q": "a:b"}, headers=HTMX).text
    chinese = web.get("/ui/search/results", params={"q": "系統"}, headers={**HTMX, "Accept-Language": "zh-TW"}).text
    assert 'href="/ui/system"' in chinese


def test_paging_survives_new_jobs(web: httpx.Client, service: Deployment) -> None:
    names = [f"page {index:02d}" for index in range(PAGE_JOBS + 2)]
    began = now()
    for index, name in enumerate(names):  # a list knows the order of jobs to the millisecond
        put_job(service, name, moment=began + timedelta(milliseconds=index))
    first = web.get("/ui/jobs?q=page").text
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    put_job(service, "page 99", moment=began + timedelta(minutes=1))
    second = web.get(older[1].replace("&amp;", "&")).text
    assert [name for name in names if f">{name}<" in second] == names[:2]


def test_the_list_asks_for_its_unfinished_rows_in_one_and_then_for_a_reset_alone(
    web: httpx.Client, service: Deployment
) -> None:
    store, record = put_job(service, "moving")
    page = web.get("/ui/jobs?q=moving").text
    match = re.search(r'id="jobs-live" hx-get="([^"]+)" hx-trigger="[^"]*every 4s"', page)
    assert match is not None and record.job_id in match[1]
    store.apply(record.job_id, model.claimed(Stage.ONNX, worker="w/onnx/0"))
    running = web.get(match[1], headers=HTMX).text
    assert "ONNX running" in running and "every 4s" in running
    assert f'id="job-state-{record.job_id}" class="cell-state" hx-swap-oob="true"' in running
    store.apply(record.job_id, model.cancelled(Stage.ONNX, now=to_text(now())))
    ended = web.get(match[1], headers=HTMX).text
    assert "Cancelled" in ended and "every 10s" in ended and "ids=&amp;began=" in ended


def test_several_jobs_are_cancelled_and_deleted_after_a_question(web: httpx.Client, service: Deployment) -> None:
    ids = [put_job(service, f"bulk {index}")[1].job_id for index in range(2)]
    question = web.post("/ui/jobs/selected", data={"id": ids, "action": "cancel"}, headers=OURS)
    assert question.status_code == 200 and "Cancel 2 jobs?" in question.text
    done = web.post("/ui/jobs/selected", data={"id": ids, "action": "cancel", "confirmed": "true"}, headers=OURS)
    assert done.headers["location"] == "/ui/jobs?note=cancelled&count=2"
    assert "2 jobs were cancelled." in web.get(done.headers["location"]).text
    again = web.post("/ui/jobs/selected", data={"id": ids[0], "action": "cancel"}, headers=OURS)
    assert "Nothing to do" in again.text
    done = web.post("/ui/jobs/selected", data={"id": ids, "action": "delete", "confirmed": "true"}, headers=OURS)
    assert done.headers["location"].endswith("note=deleted&count=2")
    assert web.get(f"/jobs/{ids[0]}", headers={"Accept": "application/json"}).status_code == 404


def test_two_to_eight_jobs_are_compared_and_not_one_nor_nine(web: httpx.Client) -> None:
    ids = [str(uuid.uuid4()) for _ in range(9)]
    three = web.post("/ui/jobs/selected", data={"id": ids[:3], "action": "compare"}, headers=OURS)
    assert three.headers["location"] == f"/ui/jobs/compare?a={ids[0]}&b={ids[1]}&c={ids[2]}"
    for wrong in (ids[:1], ids):
        refused = web.post("/ui/jobs/selected", data={"id": wrong, "action": "compare"}, headers=OURS)
        assert refused.status_code == 400 and "two to eight" in refused.text


def test_of_one_job_there_is_no_comparison_as_csv(web: httpx.Client, service: Deployment) -> None:
    job_id = put_job(service, "alone")[1].job_id
    refused = web.get("/ui/jobs/compare.csv", params={"a": job_id})
    assert refused.status_code == 400 and "Two jobs or more can be compared." in refused.text


@pytest.mark.parametrize("action", ["tag", "untag"])
def test_without_a_tag_no_job_is_changed(web: httpx.Client, service: Deployment, action: str) -> None:
    job_id = put_job(service, "untouched")[1].job_id
    before = web.get(f"/jobs/{job_id}").json()
    data = {"id": job_id, "action": action, "tag": ""}
    refused = web.post("/ui/jobs/selected", data=data, headers=OURS)
    assert refused.status_code == 422 and "A tag is missing." in refused.text
    assert web.get(f"/jobs/{job_id}").json() == before


def test_the_page_of_a_finished_job_offers_everything_and_asks_for_nothing(
    web: httpx.Client, finished: dict[str, Any]
) -> None:
    job_id = finished["job_id"]
    page = web.get(f"/ui/jobs/{job_id}").text
    for name, artifact in finished["artifacts"].items():
        assert f'href="/jobs/{job_id}/artifacts/{name}"' in page and artifact["sha256"] in page
    assert re.search(r"deleted <time [^>]+>in (89|90) days</time>", page)
    assert f"/ui/jobs/new?from={job_id}" in page
    assert "every 4s" not in page and "hx-sse:connect" not in page and "http-equiv" not in page


def test_the_page_of_an_active_job_listens_polls_and_without_script_reloads(
    web: httpx.Client, service: Deployment
) -> None:
    store, record = put_job(service, "live")
    store.apply(record.job_id, model.claimed(Stage.ONNX, worker="w/onnx/0"))
    store.log_append(record.job_id, "onnx", b"one\ntwo <three>\n")
    for may_be_redrawn in (True, True, False):  # where a new period of the outlook begins in between
        page = web.get(f"/ui/jobs/{record.job_id}").text
        assert f'hx-sse:connect="/jobs/{record.job_id}/events" hx-sse:close="done"' in page
        assert '<noscript><meta http-equiv="refresh" content="5">' in page
        assert "two &lt;three&gt;" in page
        poll = re.search(r'hx-get="([^"]+/live\?seen=[^"]+)" hx-trigger="status from:#job-sse, [^"]*every 4s"', page)
        assert poll is not None
        unchanged = web.get(poll[1], headers=HTMX)
        if unchanged.status_code == 204 or not may_be_redrawn:
            break
    assert unchanged.status_code == 204
    store.apply(record.job_id, model.cancelled(Stage.ONNX, now=to_text(now())))
    ended = web.get(poll[1], headers=HTMX)
    assert ended.status_code == 200 and "every 4s" not in ended.text and "/live?" not in ended.text
    assert f'id="job-live-{record.job_id}"' in ended.text and 'hx-swap-oob="outerMorph"' in ended.text
    assert "Cancelled in stage ONNX" in ended.text


def test_a_queue_that_nobody_works_on_is_said_in_words(web: httpx.Client, service: Deployment) -> None:
    kneron = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720)
    _, record = put_job(service, "stuck", options=kneron)
    page = web.get(f"/ui/jobs/{record.job_id}").text
    assert "No worker serves the queue onnx right now." in page
    _, record = put_job(service, "not stuck")
    page = web.get(f"/ui/jobs/{record.job_id}").text
    assert "Nobody works" not in page and "1 worker serves this queue" in page


def test_a_failure_says_what_where_why_and_what_to_try(web: httpx.Client, service: Deployment) -> None:
    store, record = put_job(service, "breaks")
    store.apply(record.job_id, model.claimed(Stage.ONNX, worker="w/onnx/0"))
    error = JobError(
        "onnx",
        "the graph has a cycle",
        code="STAGE_FAILED",
        hint="Export it again.",
        detail={"node": "conv7", "peak_bytes": 1536, "tree": [{"a": 1}]},
    )
    store.apply(record.job_id, model.failed(Stage.ONNX, now=to_text(now()), error=error))
    store.log_append(record.job_id, "onnx", b"\n".join(f"line {index}".encode() for index in range(40)))
    page = web.get(f"/ui/jobs/{record.job_id}").text
    for text in ("Stage ONNX failed", "the graph has a cycle", "Export it again.", "conv7", "1.5 KiB", "line 39"):
        assert text in page
    assert f'class="btn btn-primary" href="/ui/jobs/new?from={record.job_id}"' in page
    assert page.count("btn-primary") - page.count("btn-primary btn-danger") == 1


def test_a_job_is_cancelled_and_deleted_without_script(web: httpx.Client, service: Deployment) -> None:
    _, record = put_job(service, "short")
    path = f"/ui/jobs/{record.job_id}"
    assert web.post(f"{path}/cancel").status_code == 403
    assert web.post(f"{path}/delete", headers=OURS).status_code == 409
    assert web.post(f"{path}/cancel", headers=OURS).headers["location"] == path
    late = web.post(f"{path}/cancel", headers=OURS).headers["location"]
    assert "nothing to cancel" in web.get(late).text
    assert web.post(f"{path}/delete", headers=OURS).headers["location"] == "/ui/jobs?note=deleted"
    assert web.get(path).status_code == 404


def test_name_tags_and_notes_are_changed_on_the_page_and_a_wrong_one_changes_nothing(
    web: httpx.Client, service: Deployment
) -> None:
    _, record = put_job(service, "before")
    path = f"/ui/jobs/{record.job_id}"
    sent = {"name": "after", "tags": "a, b,a", "notes": "two\r\nlines <b>"}
    assert web.post(f"{path}/edit", data=sent, headers=OURS).headers["location"] == f"{path}?note=edited"
    page = web.get(path).text
    assert "<h1>after</h1>" in page and "two\nlines &lt;b&gt;" in page and 'value="a, b"' in page
    refused = web.post(f"{path}/edit", data={**sent, "name": "x" * 300}, headers=OURS)
    assert refused.status_code == 422
    job = web.get(f"/jobs/{record.job_id}").json()
    assert (job["name"], job["tags"], job["notes"]) == ("after", ["a", "b"], "two\nlines <b>")


def test_a_job_is_kept_for_good_and_let_go_again(web: httpx.Client, finished: dict[str, Any]) -> None:
    path = f"/ui/jobs/{finished['job_id']}"
    for is_kept, text, offered in ((True, "Kept for good.", "do not keep"), (False, "deleted <time", "keep for good")):
        web.post(f"{path}/keep", data={"keep": str(is_kept).lower()}, headers=OURS)
        page = web.get(path).text
        assert text in page and f">{offered}</button>" in page
        assert web.get(f"/jobs/{finished['job_id']}").json()["keep"] is is_kept


def test_a_next_action_is_applied_as_a_new_job_with_the_change_alone(web: httpx.Client, service: Deployment) -> None:
    with Api(service.url) as api:
        options = {"quantization": {"method": "percentile"}}
        job_id = api.convert(small_model(), pngs(3), name="misfed", tags=["kept"], options=options)["job_id"]
        recognition = {"is_sure": True, "family": "yunet", "title": "YuNet", "summary": "BGR"}
        recognition |= {"preprocess": {"color": "BGR"}}
        intake = json.loads(service.redis.hget(f"job:{job_id}", "intake"))  # type: ignore[arg-type]
        service.redis.hset(f"job:{job_id}", "intake", json.dumps({**intake, "recognition": recognition}))
        page = web.get(f"/ui/jobs/{job_id}").text
        assert "Prepare the pictures as YuNet models are trained" in page
        match = re.search(
            r'action="([^"]+/apply[^"]*)"[^>]*><input type="hidden" name="action" value="(preprocess:)"', page
        )
        assert match is not None
        first, second = (web.post(match[1], data={"action": match[2]}, headers=OURS) for _ in range(2))
        assert first.status_code == 303 and first.headers["location"] == second.headers["location"]
        new_id = first.headers["location"].removeprefix("/ui/jobs/").partition("?")[0]
        new = api.wait(new_id, has_ended)
    assert (new["name"], new["tags"], new["options"]["preprocess"]["color"]) == ("misfed", ["kept"], "BGR")
    assert new["options"]["quantization"]["method"] == "percentile"


def test_how_many_pictures_are_enough_is_measured_by_a_button_and_shown_with_the_pictures(
    web: httpx.Client, service: Deployment
) -> None:
    with Api(service.url) as api:
        job = api.convert(small_model(), pngs(8), name="enough", options={"quantization": {"method": "minmax"}})
        page = web.get(f"/ui/jobs/{job['job_id']}?tab=pictures").text
        button = re.search(r'action="([^"]+/apply[^"]+)" data-once><input type="hidden" name="action" value="sat', page)
        assert button is not None
        sent = web.post(button[1], data={"action": "saturation"}, headers=OURS)
        measured = api.wait(sent.headers["location"].removeprefix("/ui/jobs/").partition("?")[0], has_ended)
    curve = measured["stages"]["bie"]["summary"]["saturation"]
    assert ([point["samples"] for point in curve["points"]], curve["judges"]) == ([1, 2, 4, 6], 2)
    assert measured["options"]["quantization"]["method"] == "minmax"
    shown = web.get(f"/ui/jobs/{measured['job_id']}?tab=pictures").text
    for text in (shown, web.get("/ui/jobs/new").text):
        assert "SNR against the number of calibration pictures" in text and "Judged on 2 other pictures." in text
    assert "/apply" not in shown.partition('id="saturation"')[2]


def test_an_action_that_there_is_not_is_refused_and_makes_no_job(web: httpx.Client, finished: dict[str, Any]) -> None:
    count = len(web.get("/jobs").json()["jobs"])
    answer = web.post(f"/ui/jobs/{finished['job_id']}/apply", data={"action": "goal:9"}, headers=OURS)
    assert answer.status_code == 404 and "no such action" in answer.text
    assert len(web.get("/jobs").json()["jobs"]) == count


def test_a_tab_that_there_is_not_is_refused(web: httpx.Client, finished: dict[str, Any]) -> None:
    assert web.get(f"/ui/jobs/{finished['job_id']}?tab=nothing").status_code == 422


def test_a_job_whose_reports_are_gone_still_has_its_page(web: httpx.Client, service: Deployment) -> None:
    with Api(service.url) as api:
        job_id = api.convert(small_model(), pngs(3), name="reportless")["job_id"]
    store_of(service).delete(f"jobs/{job_id}/output/bie.json")
    page = web.get(f"/ui/jobs/{job_id}")
    assert page.status_code == 200 and "the object store does not answer" in page.text
    assert f'href="/jobs/{job_id}/artifacts/out.nef"' in page.text


def test_all_files_come_as_one_zip(web: httpx.Client, finished: dict[str, Any]) -> None:
    answer = web.get(f"/ui/jobs/{finished['job_id']}/all.zip")
    assert answer.headers["content-type"] == "application/zip" and "attachment" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        assert packed.testzip() is None
        sizes = {info.filename: info.file_size for info in packed.infolist()}
    assert sizes == {name: artifact["size_bytes"] for name, artifact in finished["artifacts"].items()}


def test_after_a_reset_the_page_says_so_and_one_click_submits_again(web: httpx.Client, service: Deployment) -> None:
    with Api(service.url) as api:
        job_id = api.convert(small_model(), pngs(3), name="survivor", tags=["kept"])["job_id"]
        service.redis.delete(f"job:{job_id}")
        page = web.get(f"/ui/jobs/{job_id}")
        assert page.status_code == 404
        assert "系統已重啟,請重新送出" in page.text and "The system was restarted, please submit again" in page.text
        assert f'action="/ui/jobs/{job_id}/resubmit?once=' in page.text and "survivor" in page.text
        fragment = web.get(f"/ui/jobs/{job_id}/live?seen=x", headers=HTMX)
        assert fragment.headers["hx-refresh"] == "true"
        answer = web.post(f"/ui/jobs/{job_id}/resubmit", headers=OURS)
        assert answer.status_code == 303
        new_id = answer.headers["location"].removeprefix("/ui/jobs/").partition("?")[0]
        new = api.wait(new_id, has_ended)
        assert (new["status"], new["name"], new["tags"]) == ("COMPLETED", "survivor", ["kept"])


@pytest.mark.parametrize("job_id", ["00000000-0000-4000-8000-000000000000", "no-job", "a%2Fb", "x" * 3000])
def test_a_job_that_never_was_gets_a_helpful_page_too(web: httpx.Client, job_id: str) -> None:
    page = web.get(f"/ui/jobs/{job_id}")
    assert page.status_code == 404 and "<html" in page.text and "/resubmit" not in page.text
    assert web.post(f"/ui/jobs/{job_id}/resubmit", headers=OURS).status_code == 404


def test_a_page_of_ten_thousand_jobs_reads_a_bounded_number_of_records(container: Container) -> None:
    _seed(container, 10_000)
    read = []
    read_many = container.store.records.read_many

    def counting(ids: Any) -> Any:
        ids_read = list(ids)
        read.append(len(ids_read))
        return read_many(ids_read)

    container.store.records.read_many = counting  # type: ignore[method-assign]
    page_ids = container.conversion.index.search(parse("x9990", now=now()), "local", limit=PAGE_JOBS)
    records = container.conversion.jobs.several(page_ids.job_ids, "local")
    assert [record.name for record in records] == ["seed x9990"] and page_ids.total == 1
    assert sum(read) == 10_000 + 1, "records are read when they are indexed, and those of the page"
    read.clear()
    page = container.conversion.index.search(parse("seed", now=now()), "local", offset=5000, limit=PAGE_JOBS)
    assert len(page.job_ids) == PAGE_JOBS and page.total == 10_000 and read == [0]


def _seed(container: Container, count: int) -> None:
    """Job i was created i seconds before the newest; no job ID contains an x."""
    with container.redis.pipeline(transaction=False) as pipe:
        for index in range(count):
            record = model.submitted(
                str(uuid.uuid4()),
                now=to_text(now()),
                owner="local",
                name=f"seed x{index}",
                tags=(),
                options=Options(),
                inputs={},
                intake={},
            )
            pipe.hset(f"job:{record.job_id}", mapping=model.to_fields(record))
            pipe.zadd("jobs", {record.job_id: 1e15 - index * 1e6})
        pipe.execute()


def test_a_stage_that_is_far_over_its_usual_time_is_told_on_page_and_api(
    web: httpx.Client, service: Deployment
) -> None:
    moment = now()
    times = {"started_at": to_text(moment - timedelta(hours=5)), "finished_at": to_text(moment - timedelta(hours=5))}
    done = StageRecord(state=StageState.DONE, progress=100, **times)
    for index in range(3):
        store, record = put_job(service, f"usual {index}")
        store.delete(record.job_id)
        ended = replace(record, status=Status.COMPLETED, stage=Stage.NEF, finished_at=times["finished_at"])
        store.create(replace(ended, stages=dict.fromkeys(("onnx", "bie", "nef"), done)), score=2**52)
    running = StageRecord(state=StageState.RUNNING, started_at=to_text(moment - timedelta(hours=3)))
    store, record = put_job(service, "endless")
    store.delete(record.job_id)
    store.create(replace(record, stages={**record.stages, "onnx": running}), score=2**52)
    try:
        until(lambda: web.get(f"/jobs/{record.job_id}").json()["is_far_over_usual_time"])
        page = web.get(f"/ui/jobs/{record.job_id}").text
        assert "Stage ONNX is taking far longer than usual." in page and "takes longer than usual" not in page
    finally:
        store.apply(record.job_id, model.cancelled(Stage.ONNX, now=to_text(now())))
    assert web.get(f"/jobs/{record.job_id}").json()["is_far_over_usual_time"] is False
