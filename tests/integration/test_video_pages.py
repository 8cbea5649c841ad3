"""The pages of video as a browser without scripts uses them, and the fragments that scripts ask for."""

from __future__ import annotations

import asyncio
import html
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from rich.console import Console

from app.bootstrap.container import Container
from app.inference.broadcast import Broadcast
from app.kit.clock import from_text, now, to_text
from app.kit.redis.change_hub import ChangeHub
from app.kit.web.auth import Caller
from app.kit.web.filters import exact
from app.kit.web.languages import catalogue
from app.kit.web.sse import change_frames
from app.model_registry.model import NewVersion
from app.video import store
from app.video.cli.tables import job_lines, stages_table
from app.video.errors import VideoJobNotFound
from app.video.model.job import CANNOT_RUN, JOBS, UNCHANGED, JobState, Mode, RestartPolicy, VideoJob
from app.video.model.kinds import StageSpec
from app.video.scheduling.registry import policies
from app.video.service.orders import order_job
from tests.harness.api import classifying_model
from tests.harness.page_text import text_of
from tests.harness.users import OURS, Within, within
from tests.harness.valkey import Valkey
from tests.harness.video.records import EDGE, dag, ended_video, running_video, video_nodes, waiting_video
from tests.harness.video.web import emptied, settings_in

USER = "local"
HTMX = {**OURS, "HX-Request": "true"}
FORM = {
    "way": "form",
    "video": f"{EDGE}/1",
    "generator": "SingleFrameGenerator",
    "stages": "face_detection,face_alignment",
    "delay_hi": "0.4",
    "delay_lo": "0.1",
    "acc_level": "2",
    "policy": "stepwise",
    "restart_policy": "eos",
    "realtime": "on",
    "mode": "run",
}
HX_GET = re.compile(r'hx-get="([^"]+)"')


class Browser:
    def __init__(self, web: Within) -> None:
        self.web = web
        self.container: Container = web.app.state.container
        self.video = self.container.video

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.web.get(path, **options)

    def send(self, path: str, fields: dict[str, str], headers: dict[str, str] = OURS) -> httpx.Response:
        return self.web.post(path, data=fields, headers=headers)

    def running(self, **facts: Any) -> VideoJob:
        return running_video(self.video, USER, now=now(), **facts)

    def waiting(self) -> VideoJob:
        return waiting_video(self.video, USER, now=now())

    def become(self, user: str, *, is_admin: bool = False) -> None:
        """Until the test is over."""
        caller = Caller(user, is_admin=is_admin)
        vars(self.container)["authenticator"] = SimpleNamespace(caller=lambda _: caller)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Iterator[Within]:
    with within(settings_in(tmp_path_factory.mktemp("web"), shared_valkey)) as made:
        yield made


@pytest.fixture
def browser(web: Within) -> Iterator[Browser]:
    emptied(web.app.state.container)
    authenticator = web.app.state.container.authenticator
    yield Browser(web)
    vars(web.app.state.container)["authenticator"] = authenticator


def values_of(page: str) -> dict[str, str]:
    """What the fields of a page hold, of selects what is selected."""
    values = dict(re.findall(r'<input[^>]*? name="([^"]+)" value="([^"]*)"', page))
    for name, inner in re.findall(r'<select[^>]*? name="([^"]+)"[^>]*>(.*?)</select>', page, re.S):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', inner)
        values[name] = (chosen[1] if chosen[1] is not None else chosen[2]) if chosen else ""
    chosen_policy = re.search(r'name="policy" value="([^"]+)" checked', page)
    values["policy"] = chosen_policy[1] if chosen_policy else ""
    return {name: html.unescape(value) for name, value in values.items()}


def body_of(page: str) -> Any:
    shown = re.search(r'aria-labelledby="preview-title">([^<]+)</pre>', page)
    assert shown
    return json.loads(html.unescape(shown[1]))


# the list


def test_where_there_is_no_job_the_list_says_what_to_do(browser: Browser) -> None:
    shown = text_of(browser.get("/ui/video").text)
    assert "No video job yet" in shown and "--video" in shown and "Add stages" in shown
    assert "Start the demonstration" in shown


def test_the_list_says_of_each_job_how_it_does(browser: Browser) -> None:
    job = browser.running()
    page = browser.get("/ui/video").text
    shown = text_of(page)
    for text in (
        job.uid,
        "edge0 · video 1",
        "Running",
        "face_detection → face_alignment",
        "profile · Edge 1 / Cloud 1",
    ):
        assert text in shown
    assert "230 ms" in shown and "800 ms" in shown and "5.8" in shown
    assert f'src="/ui/video/{job.uid}/snapshot?at=' in page


def test_the_list_is_filtered_by_state_and_text(browser: Browser) -> None:
    running, waiting = browser.running(), browser.waiting()
    only = browser.get("/ui/video?state=EXEC").text
    assert running.uid in only and waiting.uid not in only
    named = browser.get(f"/ui/video?q={waiting.uid}").text
    assert waiting.uid in named and running.uid not in named
    assert "No video job matches" in browser.get("/ui/video?q=no-such").text
    assert browser.get("/ui/video?state=NONE").status_code == 422


def test_a_job_has_a_name_of_its_users_own(browser: Browser) -> None:
    uid = browser.running().uid
    page = f"/ui/video/{uid}"
    assert browser.send(f"{page}/name", {"name": " Hall, <faces> "}).headers["location"] == f"{page}?note=renamed"
    assert "<h1>Hall, &lt;faces&gt;</h1>" in browser.get(page).text
    assert "Hall, &lt;faces&gt;" in browser.get("/ui/video?q=faces").text
    api = f"/api/v2/video/jobs/{uid}"
    record = browser.get(api).json()
    assert record["name"] == "Hall, <faces>" and "name        Hall, <faces>" in list(job_lines(record))
    refused = browser.send(f"{page}/name", {"name": "n" * 201})
    assert refused.status_code == 400 and "cannot be the name" in refused.text and "n" * 201 in refused.text
    assert browser.web.request("PATCH", api, json={}).json()["name"] == "Hall, <faces>", "what is left out stays"
    assert browser.web.request("PATCH", api, json={"name": ""}).json()["name"] == ""
    assert f"<h1>{uid}</h1>" in browser.get(page).text
    again = browser.send("/ui/video/new", {**FORM, "name": "Second", "action": "submit"})
    assert "<h1>Second</h1>" in browser.get(again.headers["location"]).text
    from_it = browser.get(f"/ui/video/new?from={again.headers['location'].split('/')[-1].partition('?')[0]}")
    assert 'name="name" value="Second"' in from_it.text


def test_the_list_goes_on_over_pages(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.video.pages.job_list.PAGE_JOBS", 2)
    uids = [browser.waiting().uid for _ in range(3)]
    first = browser.get("/ui/video").text
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older
    second = browser.get(html.unescape(older[1])).text
    assert (first.count("video-row-"), second.count("video-row-")) == (2, 1)
    assert all((f"video-row-{uid}" in first) != (f"video-row-{uid}" in second) for uid in uids)
    assert "Newest" in text_of(second)


def test_the_fragment_of_the_list_is_sent_only_when_something_changed(browser: Browser) -> None:
    job = browser.running()
    address = HX_GET.search(browser.get("/ui/video").text)
    assert address
    assert browser.get(html.unescape(address[1])).status_code == 204
    browser.video.jobs.choose(USER, job.uid, "fixed", now=now())
    assert "fixed" in browser.get(html.unescape(address[1])).text


# a job


def test_the_page_of_a_job_shows_plan_figures_decisions_and_events(browser: Browser) -> None:
    job = browser.running()
    page = browser.get(f"/ui/video/{job.uid}").text
    shown = text_of(page)
    for text in (
        "Running",
        "live",
        "480p",
        "of every 4 frames 1 processed, 2 tracked, 1 skipped",
        "230 ms",
        "310 ms",
        "97.0 %",
        "face_rfb_640",
        "192.168.56.102",
        "Times, nodes and models",
        "110 ms + 2.0 ms + 8.0 ms",
        "policy too slow",
        "the first plan",
        "The policy took longer than 1 s.",
        "The source has 24 frames a second.",
        f"Newest frame {job.n_loop}",
    ):
        assert text in shown, text
    assert page.count('class="plot"') == 3 and 'class="plot-line line-hi"' in page
    assert f'src="/user/video/{job.uid}"' in page and 'class="counts"' in page


def test_what_does_not_run_in_the_cloud_is_called_edge(browser: Browser) -> None:
    job = browser.running()
    page = browser.get(f"/ui/video/{job.uid}").text
    rows = re.findall(r"<tr><td data-label=\"Stage\">.*?</tr>", page, re.S)
    assert ["Edge" in row for row in rows] == [True, False] and ["Cloud" in row for row in rows] == [False, True]
    assert 'class="dag-box box-stage in-cloud"' in page and "is-far" in page


def test_a_job_without_a_plan_says_so(browser: Browser) -> None:
    shown = text_of(browser.get(f"/ui/video/{browser.waiting().uid}").text)
    assert "Waiting for a plan" in shown and "There is no plan yet." in shown and "Nothing was reported yet." in shown


def test_an_ended_job_says_how_and_asks_no_more(browser: Browser) -> None:
    job = ended_video(browser.video, USER, now=now())
    page = browser.get(f"/ui/video/{job.uid}").text
    assert "Finished" in page and "The video came to its end." in page and "snapshot every" not in page
    main = page.split("<main")[1].split("</main>")[0]
    assert "video-sse" not in page and "hx-trigger" not in main.split('id="video-controls"')[0]
    assert "Delete…" in text_of(page) and "Cancel…" not in text_of(page)
    assert browser.get(f"/ui/video/{job.uid}/events").status_code == 204


def test_the_fragment_of_a_job_is_sent_only_when_something_changed(browser: Browser) -> None:
    job = browser.running()
    address = HX_GET.search(browser.get(f"/ui/video/{job.uid}").text)
    assert address and address[1].startswith(f"/ui/video/{job.uid}/live?seen=")
    first = browser.get(f"/ui/video/{job.uid}/live")
    seen = re.search(r"seen=(\w+)", first.text)
    assert seen and first.status_code == 200
    browser.video.jobs.cancel(USER, job.uid, now=now())
    again = browser.get(f"/ui/video/{job.uid}/live?seen={seen[1]}")
    assert again.status_code == 200 and "Cancelled" in again.text
    settled = re.search(r"hx-get", again.text)
    assert settled is None


def test_a_job_that_is_gone_has_its_page_read_anew(browser: Browser) -> None:
    assert browser.get("/ui/video/GLOBAL_ID_9.SUB_ID_1/live").headers["hx-refresh"] == "true"
    assert browser.get("/ui/video/GLOBAL_ID_9.SUB_ID_1").status_code == 404


def test_a_snapshot_is_a_jpeg_and_a_blank_picture_before_there_is_one(browser: Browser) -> None:
    job = browser.running()
    blank = browser.get(f"/ui/video/{job.uid}/snapshot")
    assert blank.headers["content-type"] == "image/svg+xml" and "sandbox" in blank.headers["content-security-policy"]
    browser.video.pictures.put_snapshot(EDGE, job.uid, b"\xff\xd8\xff\xe0" + bytes(40) + b"\xff\xd9", now=now())
    assert browser.get(f"/ui/video/{job.uid}/snapshot").headers["content-type"] == "image/jpeg"


def test_a_stream_says_that_something_changed_and_ends_with_the_process() -> None:
    async def heard() -> list[bytes]:
        hub, changes = ChangeHub("redis://nowhere"), []
        stream = change_frames(hub, "video:x", gap_s=0)
        waiting = asyncio.ensure_future(anext(stream))
        while not hub.viewers:
            await asyncio.sleep(0)
        hub._raise("video:x")
        changes.append(await waiting)
        ending = asyncio.ensure_future(anext(stream, b"end"))
        while not hub.viewers:
            await asyncio.sleep(0)
        hub.set()
        changes.append(await ending)
        return changes

    changed, end = asyncio.run(heard())
    assert b"event: changed" in changed and end == b"end"


# what can be changed


def test_a_constraint_is_set_by_a_plain_form(browser: Browser) -> None:
    job = browser.running()
    fields = {"delay_hi": "0.3", "delay_lo": "", "acc_level": "4"}
    answer = browser.send(f"/ui/video/{job.uid}/constraint", fields)
    assert answer.status_code == 303 and answer.headers["location"].endswith("?note=constrained")
    constraint = browser.video.jobs.get(USER, job.uid).constraint
    assert (constraint.lo, constraint.hi, constraint.quality) == (-1, 0.3, 0.9)


def test_a_constraint_is_set_in_place_where_scripts_run(browser: Browser) -> None:
    job = browser.running()
    fields = {"delay_hi": "0.5", "delay_lo": "0.2", "acc_level": "1"}
    answer = browser.send(f"/ui/video/{job.uid}/constraint", fields, HTMX)
    assert answer.status_code == 200 and "Applies with the next plan" in answer.text
    assert {"delay_hi": "0.5", "delay_lo": "0.2", "acc_level": "1"}.items() <= values_of(answer.text).items()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delay_hi": "soon", "acc_level": "1"}, "Seconds, as 0.3."),
        ({"delay_hi": "nan", "acc_level": "1"}, "Seconds, as 0.3."),
        ({"delay_hi": "0.3", "delay_lo": "0.4", "acc_level": "1"}, "This must be less than the longest."),
        ({"delay_hi": "0.3", "acc_level": "9"}, "A level from 0 to 5."),
    ],
)
def test_a_wrong_constraint_is_said_at_its_field_and_keeps_what_was_typed(
    browser: Browser, fields: dict[str, str], message: str
) -> None:
    job = browser.running()
    for headers in (OURS, HTMX):
        answer = browser.send(f"/ui/video/{job.uid}/constraint", fields, headers)
        assert message in answer.text and 'aria-invalid="true"' in answer.text
        assert values_of(answer.text)["delay_hi"] == fields["delay_hi"]
    assert browser.video.jobs.get(USER, job.uid).constraint == job.constraint


def test_the_policy_is_swapped_while_the_job_runs(browser: Browser) -> None:
    job = browser.running()
    assert browser.send(f"/ui/video/{job.uid}/policy", {"policy": "cloud_only"}).status_code == 303
    assert browser.video.jobs.get(USER, job.uid).policy == "cloud_only"
    unknown = browser.send(f"/ui/video/{job.uid}/policy", {"policy": "best"})
    assert unknown.status_code == 400 and "best" in text_of(unknown.text)
    assert browser.video.jobs.get(USER, job.uid).policy == "cloud_only"


def test_a_job_is_cancelled_and_deleted_after_a_question(browser: Browser) -> None:
    job = browser.running()
    assert "Cancel this video job?" in browser.get(f"/ui/video/{job.uid}/cancel").text
    early = browser.send(f"/ui/video/{job.uid}/delete", {})
    assert early.status_code == 409 and 'role="alert"' in early.text
    assert browser.send(f"/ui/video/{job.uid}/cancel", {}).status_code == 303
    assert browser.video.jobs.get(USER, job.uid).state is JobState.DONE
    assert "Delete this video job?" in browser.get(f"/ui/video/{job.uid}/delete").text
    assert browser.send(f"/ui/video/{job.uid}/delete", {}).headers["location"] == "/ui/video?note=deleted"
    with pytest.raises(VideoJobNotFound):
        browser.video.jobs.get(USER, job.uid)


# a new one


def test_a_job_is_built_stage_by_stage_without_scripts(browser: Browser) -> None:
    job = browser.running()
    page = browser.get("/ui/video/new?node=edge0&video=1").text
    for stage in ("face_detection", "face_alignment"):
        fields = {**values_of(page), "realtime": "on", "action": f"add:{stage}"}
        answer = browser.send("/ui/video/new", fields)
        assert answer.status_code == 200
        page = answer.text
    assert body_of(page)["dag"] == dag()
    made = browser.send("/ui/video/new", {**values_of(page), "realtime": "on", "action": "submit"})
    assert made.status_code == 303, text_of(made.text)
    uid = made.headers["location"].removeprefix("/ui/video/").partition("?")[0]
    stored = browser.video.jobs.get(USER, uid)
    assert uid != job.uid and stored.dag.to_json() == dag() and (stored.node, stored.video_id) == (EDGE, "1")


def test_all_that_the_form_says_is_submitted(browser: Browser) -> None:
    browser.running()
    made = browser.send("/ui/video/new", {**FORM, "action": "submit"})
    assert made.status_code == 303, text_of(made.text)
    job = browser.video.jobs.get(USER, made.headers["location"].split("/")[-1].partition("?")[0])
    assert (job.policy, job.restart_policy, job.realtime) == ("stepwise", RestartPolicy.EOS, True)
    assert (job.constraint.lo, job.constraint.hi, job.constraint.quality) == (0.1, 0.4, 0.7)
    no_realtime = browser.send("/ui/video/new", {k: v for k, v in FORM.items() if k != "realtime"})
    assert not browser.video.jobs.get(USER, no_realtime.headers["location"].split("/")[-1].split("?")[0]).realtime


def test_stages_change_places_and_are_taken_out(browser: Browser) -> None:
    browser.running()
    for action, stages in (
        ("up:face_alignment", "face_alignment,face_detection"),
        ("remove:face_detection", "face_alignment"),
    ):
        page = browser.send("/ui/video/new", {**FORM, "action": action}).text
        assert values_of(page)["stages"] == stages


def test_an_input_that_nothing_gives_is_said_at_its_field(browser: Browser) -> None:
    browser.running()
    answer = browser.send("/ui/video/new", {**FORM, "stages": "face_alignment", "action": "submit"})
    assert answer.status_code == 422
    assert 'id="wire-face_alignment-bbox-problem"' in answer.text and "provides boxes" in text_of(answer.text)
    assert values_of(answer.text)["delay_hi"] == "0.4"
    assert len(browser.video.jobs.page(USER)[0]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"video": ""}, "This is needed."),
        ({"video": "edge0/7"}, "7"),
        ({"stages": ""}, "A job needs at least one stage."),
        ({"stages": "no_such"}, "There is no stage no_such."),
        ({"policy": "best"}, "best"),
        ({"delay_hi": "-1"}, "Seconds, as 0.3."),
    ],
)
def test_a_wrong_field_keeps_all_others_as_they_were(browser: Browser, change: dict[str, str], message: str) -> None:
    browser.running()
    sent = {**FORM, **change, "action": "submit"}
    answer = browser.send("/ui/video/new", sent)
    assert 400 <= answer.status_code < 500 and "Nothing was submitted yet." in answer.text
    assert message in text_of(answer.text)
    kept = values_of(answer.text)
    assert {name: kept[name] for name in FORM if name != "realtime"} == {n: sent[n] for n in FORM if n != "realtime"}
    assert len(browser.video.jobs.page(USER)[0]) == 1


def test_an_input_may_be_chosen_or_left_empty(browser: Browser) -> None:
    browser.running()
    chosen = {"in.face_alignment.prob": "-", "in.Render.image": "SingleFrameGenerator.image"}
    body = body_of(browser.send("/ui/video/new", {**FORM, **chosen, "action": "preview"}).text)
    assert "prob" not in body["dag"]["input"]["face_alignment"]
    assert body["dag"]["input"]["Render"]["image"] == "SingleFrameGenerator.image"


def test_the_preview_follows_the_form(browser: Browser) -> None:
    browser.running()
    answer = browser.send("/ui/video/new/preview", {**FORM, "delay_hi": "0.9"}, HTMX)
    assert body_of(answer.text)["user_constraint"] == {"delay": [0.1, 0.9], "acc_level": 2}
    wrong = browser.send("/ui/video/new/preview", {**FORM, "delay_hi": "soon"}, HTMX)
    assert body_of(wrong.text)["user_constraint"] == {"acc_level": 2}
    assert "Delay, at most (s): Seconds, as 0.3." in wrong.text


def test_a_job_is_written_as_json_too(browser: Browser) -> None:
    browser.running()
    page = browser.send("/ui/video/new", {**FORM, "action": "way:json"}).text
    text = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', page, re.S)
    assert text
    body = html.unescape(text[1])
    assert json.loads(body)["dag"] == dag()
    back = browser.send("/ui/video/new", {"way": "json", "text": body, "action": "way:form"}).text
    assert values_of(back)["stages"] == FORM["stages"]
    made = browser.send("/ui/video/new", {"way": "json", "text": body, "action": "submit"})
    assert made.status_code == 303


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Line 1, column 2"),
        ("[]", "A job is a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"node_addr": "edge0"}', "video_id: this is needed."),
        ('{"node_addr": "edge0", "video_id": 1, "dag": {}, "speed": 1}', "speed: there is no such field"),
        ('{"node_addr": "edge0", "video_id": 1, "dag": {"flow": []}}', "dag"),
        ('{"node_addr": "edge0", "video_id": 1, "dag": {"flow": []}, "restart_policy": "x"}', "restart_policy: one of"),
        ('{"node_addr": "edge0", "video_id": 1, "dag": {"flow": []}, "realtime": "yes"}', "realtime: true or false"),
    ],
)
def test_json_that_is_no_job_is_said_below_it_and_kept(browser: Browser, text: str, message: str) -> None:
    browser.running()
    answer = browser.send("/ui/video/new", {"way": "json", "text": text, "action": "submit"})
    assert 400 <= answer.status_code < 500
    assert message in html.unescape(answer.text) and 'id="text-error"' in answer.text
    assert html.escape(text[:40], quote=False) in answer.text.replace("&#34;", '"')


def test_json_that_the_form_has_no_fields_for_stays_json(browser: Browser) -> None:
    browser.running()
    body = {"node_addr": "edge0", "video_id": "1", "dag": {**dag(), "stages": {"face_detection": {"kind": "x"}}}}
    page = browser.send("/ui/video/new", {"way": "json", "text": json.dumps(body), "action": "way:form"}).text
    assert "so it stays JSON" in page and 'id="text"' in page


def test_a_job_is_begun_again_from_one_that_was(browser: Browser) -> None:
    job = browser.running(constraint={"delay": [0.2, 0.6], "acc_level": 3}, policy="aimd")
    page = browser.get(f"/ui/video/new?from={job.uid}").text
    values = values_of(page)
    assert values["video"] == "edge0/1" and values["stages"] == FORM["stages"]
    assert (values["delay_lo"], values["delay_hi"], values["acc_level"], values["policy"]) == (
        "0.2",
        "0.6",
        "3",
        "aimd",
    )
    assert browser.get("/ui/video/new?from=GLOBAL_ID_99.SUB_ID_1").status_code == 404


# what if


def test_a_rate_is_only_a_limit_while_that_of_the_source_is_not_known(browser: Browser) -> None:
    job = browser.running()
    assert "is not known yet" not in browser.get(f"/ui/video/{job.uid}").text
    with browser.video.jobs.database.write() as conn:
        store.change(conn, job.uid, generator_output={})
    page = browser.get(f"/ui/video/{job.uid}").text
    assert "≤ 24" in page and "own rate is not known yet" in page and "key-wanted" not in page


def test_what_if_shows_each_cut_and_which_is_the_present_one(browser: Browser) -> None:
    job = browser.running()
    page = browser.get(f"/ui/video/{job.uid}/what-if").text
    rows = re.findall(r"<tr(?: class=\"is-present\")?>\s*<td class=\"cut\">.*?</tr>", page, re.S)
    assert len(rows) == 3 and sum("is-present" in row for row in rows) == 1
    assert "<span>≤ " not in page
    with browser.video.jobs.database.write() as conn:
        store.change(conn, job.uid, generator_output={})
    assert browser.get(f"/ui/video/{job.uid}/what-if").text.count("<span>≤ ") == 3, "the source's rate is not known"
    assert "cloud0" in page and "edge0" in page


def test_what_if_follows_its_fields(browser: Browser) -> None:
    job = browser.running()

    def asked(**fields: str) -> str:
        answer = browser.send(f"/ui/video/{job.uid}/what-if", fields, HTMX)
        assert answer.status_code == 200 and "<html" not in answer.text
        return answer.text

    usual = asked()
    assert asked(resolution="360p", fps="5") != usual
    assert asked(**{"up_mbps.cloud0": "0.1"}) != usual
    assert asked(model_id="2") != usual
    offline = asked(**{"online.cloud0": "no"})
    assert "tag-cloud" not in offline
    assert "is not a valid number here" in asked(**{"up_mbps.cloud0": "fast"})


def test_what_if_of_a_dag_that_is_no_job_yet(browser: Browser) -> None:
    browser.running()
    empty = browser.get("/ui/video/what-if").text
    assert "Choose a video and give a DAG." in empty
    answer = browser.send("/ui/video/what-if", {"video": "edge0/1", "dag": json.dumps(dag())})
    assert answer.status_code == 200 and answer.text.count('class="cut"') == 3
    broken = browser.send("/ui/video/what-if", {"video": "edge0/1", "dag": "{"})
    assert broken.status_code == 422 and "Line 1" in broken.text
    wrong = browser.send("/ui/video/what-if", {"video": "edge0/1", "dag": "{}"})
    assert wrong.status_code == 400 and 'role="alert"' in wrong.text


# stages


def test_the_catalogue_is_shown_with_kinds_and_measurements(browser: Browser) -> None:
    browser.running()
    shown = text_of(browser.get("/ui/video/stages").text)
    for text in ("face_slim_320", "head_pose poses of heads", "F1 of boxes", "10.0 ms", "8.8 KiB"):
        assert text in shown, text


def test_a_stage_is_added_changed_and_removed_by_administrators(browser: Browser) -> None:
    fields = {"name": "walkers", "kind": "motion", "big": "", "middle": "", "small": "", "parameters": "level=30\n"}
    added = browser.send("/ui/video/stages", fields)
    assert added.status_code == 303, text_of(added.text)
    spec = next(listed.spec for listed in browser.video.catalogue.all())
    assert (spec.name, spec.kind, dict(spec.parameters)) == ("walkers", "motion", {"level": "30"})
    page = browser.get("/ui/video/stages?edit=walkers").text
    assert values_of(page)["name"] == "walkers" and "level=30" in page
    assert "Remove the stage walkers?" in browser.get("/ui/video/stages/walkers/remove").text
    assert browser.send("/ui/video/stages/walkers/remove", {}).status_code == 303
    assert browser.video.catalogue.all() == []
    assert browser.get("/ui/video/stages/walkers/remove").status_code == 404


def test_a_stage_that_keeps_older_versions_says_why_on_page_api_and_command_line(browser: Browser) -> None:
    models = browser.container.models
    for classes in (3, 1):
        upload = [classifying_model(classes)]
        models.add_upload(USER, "digits", upload, now=now(), versioning=NewVersion(is_next=True))
        if classes == 3:
            spec = StageSpec("sorts", "classification", (("digits",),), {"decoder": "classifier"})
            browser.video.catalogue.put(USER, spec, now=now())
    record = browser.get("/api/v2/video/stages").json()["stages"][0]
    assert record["problem"].startswith("The decoder 'classifier' cannot read the model 'digits'")
    assert [card["name"] for (card,) in record["variants"]] == ["digits"]
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(stages_table([record]))
    assert "older versions: The decoder 'classifier' cannot read" in console.export_text()
    page = text_of(browser.get("/ui/video/stages").text)
    assert "New jobs run older versions of these models. The decoder 'classifier' cannot read" in page
    chinese = text_of(browser.get("/ui/video/stages", headers={"Accept-Language": "zh-TW"}).text)
    assert "新工作仍使用這些模型的舊版本。 解碼器 'classifier' 無法讀取模型 'digits'" in chinese


def test_a_wrong_stage_is_said_and_kept(browser: Browser) -> None:
    fields = {
        "name": "faces",
        "kind": "face_detection",
        "big": "no-such-model",
        "middle": "",
        "small": "",
        "parameters": "",
    }
    for change, message in (
        ({}, "no-such-model"),
        ({"kind": ""}, "This is needed."),
        ({"parameters": "level"}, "This line is no key=value: level"),
    ):
        answer = browser.send("/ui/video/stages", {**fields, **change})
        assert 400 <= answer.status_code < 500 and message in text_of(answer.text)
        assert values_of(answer.text)["big"] == "no-such-model"
    assert browser.video.catalogue.all() == []


def test_a_stage_that_a_job_names_stays(browser: Browser) -> None:
    browser.running()
    answer = browser.send("/ui/video/stages/face_detection/remove", {})
    assert answer.status_code == 409 and 'role="alert"' in answer.text


def test_the_catalogue_is_changed_by_administrators_only(browser: Browser) -> None:
    browser.running()
    browser.become("other")
    page = browser.get("/ui/video/stages").text
    assert "face_slim_320" in page and "stage-form" not in page and "/remove" not in page
    fields = {"name": "walkers", "kind": "motion", "big": "", "middle": "", "small": "", "parameters": ""}
    assert browser.send("/ui/video/stages", fields).status_code == 403
    assert browser.get("/ui/video/stages/face_detection/remove").status_code == 403
    assert browser.send("/ui/video/stages/face_detection/remove", {}).status_code == 403


def test_measuring_is_a_job_of_its_own(browser: Browser) -> None:
    browser.running()
    fields = {"video": "edge0/1", "stage.face_alignment": "on", "stage.face_detection": "on"}
    answer = browser.send("/ui/video/stages/measure", fields)
    assert answer.status_code == 303 and answer.headers["location"].endswith("?note=measuring")
    uid = answer.headers["location"].split("/")[-1].partition("?")[0]
    job = browser.video.jobs.get(USER, uid)
    assert job.mode is Mode.PROFILE and set(job.dag.stages) == {"face_detection", "face_alignment"}
    with browser.video.jobs.database.write() as conn:
        store.change(conn, uid, progress=0.45)
    page = browser.get(f"/ui/video/{uid}").text
    assert 'value="45"' in page and "live-picture" not in page and 'id="video-controls"' not in page
    assert 'value="45"' in browser.get("/ui/video").text
    assert "measures" in text_of(browser.get(f"/ui/video/{uid}").text)


def test_stages_that_cannot_be_wired_alone_go_on_at_the_page_of_a_new_job(browser: Browser) -> None:
    browser.running()
    answer = browser.send("/ui/video/stages/measure", {"video": "edge0/1", "stage.face_alignment": "on"})
    page = browser.get(answer.headers["location"]).text
    assert values_of(page)["stages"] == "face_alignment" and values_of(page)["mode"] == "profile"


# all


def test_the_sentence_of_each_policy_is_translated() -> None:
    known = catalogue("zh-Hant")
    assert [name for name, sentence in policies().items() if not known.get(sentence)] == []


def test_a_video_of_a_node_without_jobs_can_be_chosen(browser: Browser) -> None:
    video_nodes(browser.container.nodes, now=now())
    page = browser.get("/ui/video/new").text
    assert "edge0 · 1 · classroom-270p.mp4 (people indoor)" in text_of(page)
    assert browser.video.jobs.page(USER)[0] == []


def test_the_form_begins_with_an_example_and_says_what_is_missing(browser: Browser) -> None:
    browser.running()
    empty = browser.get("/ui/video/new").text
    assert "choose a video" in empty and "add a stage" in empty
    page = browser.send(
        "/ui/video/new", {"way": "form", "video": "edge0/1", "realtime": "on", "action": "example"}
    ).text
    assert body_of(page)["dag"]["flow"] == ["SingleFrameGenerator", "face_detection", "face_alignment"]
    assert "Before it can be submitted" not in page


def test_a_video_without_a_choice_is_chosen(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.harness.video.records.VIDEOS", {"7": {"type": "hall", "name": "hall.mp4"}})
    video_nodes(browser.video.resources.nodes, now=now())
    assert values_of(browser.get("/ui/video/new").text)["video"] == "edge0/7"
    assert body_of(browser.get("/ui/video/new").text)["realtime"] is True


def test_what_is_typed_in_the_other_form_stays(browser: Browser) -> None:
    job = browser.running()
    fields = {"delay_hi": "0.3", "acc_level": "2", "policy": "fixed"}
    answer = browser.send(f"/ui/video/{job.uid}/constraint", fields, HTMX).text
    assert values_of(answer)["policy"] == "fixed"
    assert browser.video.jobs.get(USER, job.uid).policy == "profile"


def test_a_job_without_a_signal_says_since_when_in_the_list_on_its_page_and_by_the_api(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = browser.running()
    monkeypatch.setattr("app.video.pages.job._is_live", lambda *_: True)
    assert "data-live" in browser.get(f"/ui/video/{job.uid}").text
    status = {"flags": ["no_signal"], "silent_s": 60.0, "plan_result": {"delay": {}, "fps": 0.0, "frames": 0}}
    note = "No signal: nothing listens at its host and port. The source is opened again until it is back."
    browser.video.reports.take(
        {"job_uid": job.uid, "seq": 99, "results": [], "note": note, **status},
        node=EDGE,
        now=now(),  # type: ignore[typeddict-item]
    )
    since = browser.video.jobs.get(USER, job.uid).no_signal_since
    assert since
    for path in ("/ui/video", f"/ui/video/{job.uid}"):
        page = html.unescape(browser.get(path).text)
        assert f"no signal since {exact(from_text(since))}" in page
        assert "230 ms" not in page, "the last delay is of another time"
        assert note in page
    assert "data-live" not in page and "/snapshot?" in page, "a live picture would stay empty"
    shown = browser.get(f"/api/v2/video/jobs/{job.uid}").json()
    assert (shown["flags"], shown["no_signal_since"], shown["delay_s"], shown["fps"]) == (["no_signal"], since, None, 0)
    told = browser.get(f"/user/sync_job_result/{job.uid}").json()
    assert (told["flags"], told["no_signal_since"]) == (["no_signal"], since)
    assert f"no signal since {since}" in "\n".join(job_lines(shown))


def test_a_job_whose_runner_cannot_run_is_not_said_to_run(browser: Browser) -> None:
    job = browser.running()
    reason = f"{CANNOT_RUN}This node does not offer this source."
    with browser.container.database.write() as conn:
        store.change(conn, job.uid, runner_trouble=reason, cannot_run=True)
    for path in ("/ui/video", f"/ui/video/{job.uid}"):
        page = browser.get(path).text
        assert "Not running" in text_of(page) and reason in text_of(page)
        assert re.search(r'class="badge bad">\s*Not running', page)


def test_a_job_whose_runner_cannot_be_changed_runs_and_its_silent_source_is_shown(browser: Browser) -> None:
    job = browser.running()
    with browser.container.database.write() as conn:
        store.change_flags(conn, job, ["no_signal"], at=to_text(now()))
        store.change(conn, job.uid, runner_trouble=f"{UNCHANGED}there is no space left on the disk.")
    page = text_of(browser.get(f"/ui/video/{job.uid}"))
    assert "Not running" not in page and "goes on as before: there is no space left" in page
    assert "Its source delivers no pictures." in page
    assert "Its runner" not in browser.get(f"/ui/video/{job.uid}", headers={"Accept-Language": "zh-Hant"}).text


def test_what_troubles_a_job_is_said_with_where_to_look(browser: Browser) -> None:
    job = browser.running()
    with browser.container.database.write() as conn:
        store.change_flags(conn, job, ["node_full", "sink_stuck"], at=to_text(now()))
    page = browser.get(f"/ui/video/{job.uid}").text
    assert "cannot store results: the newest wait in its memory. edge0" in text_of(page)
    assert "What waits is sent as soon as it does. Sinks" in text_of(page)
    assert page.count(f'href="/ui/video/{job.uid}/sinks"') == 2


def test_a_job_whose_node_is_silent_is_not_said_to_run(browser: Browser) -> None:
    job = browser.running()
    with browser.container.database.write() as conn:
        store.change_flags(conn, job, ["no_signal", "offline"], at=to_text(now()))
        store.change(conn, job.uid, silence="No signal: it is gone. The source is opened again until it is back.")
    for path in ("/ui/video", f"/ui/video/{job.uid}"):
        page = text_of(browser.get(path).text)
        assert "last known: Running" in page and "node offline" in page
    assert "Nobody knows what the job does." in page and "Start the agent on that node" in page
    assert "last seen" in page and "opened again" not in page, "that is not known now"


def test_the_question_before_a_node_is_removed_says_what_it_is_to_run(browser: Browser) -> None:
    video_nodes(browser.container.nodes, now=now())
    assert "Remove the node</button>" in browser.get(f"/ui/nodes/{EDGE}/remove").text
    job = browser.running()
    with browser.container.database.write() as conn:
        kept = store.get(conn, job.uid)
        assert kept is not None
        order_job(browser.container.nodes, conn, kept.job, ())
    busy = browser.get(f"/ui/nodes/{EDGE}/remove").text
    assert "is to run" in busy and job.uid in busy and "Remove the node</button>" not in busy


def test_a_node_that_does_not_respond_says_what_to_do(browser: Browser) -> None:
    video_nodes(browser.container.nodes, now=now())
    assert "does not respond" not in browser.get(f"/ui/nodes/{EDGE}").text
    video_nodes(browser.container.nodes, now=now() - timedelta(hours=1))
    page = text_of(browser.get(f"/ui/nodes/{EDGE}").text)
    assert "The node does not respond" in page and "Start the agent on that node" in page and "last seen" in page


def test_the_broadcast_of_a_job_is_on_its_page_in_the_list_by_the_api_and_in_the_form(browser: Browser) -> None:
    browser.running()
    new = browser.send("/ui/video/new", {**FORM, "broadcast_path": "yard/door"})
    uid = new.headers["location"].rpartition("/")[2].partition("?")[0]
    assert browser.video.jobs.get(USER, uid).dag.broadcast == Broadcast("yard/door")
    assert values_of(browser.get(f"/ui/video/new?from={uid}").text)["broadcast_path"] == "yard/door"
    wrong = browser.send("/ui/video/new", {**FORM, "broadcast_path": "../door"})
    assert "Letters, digits" in html.unescape(wrong.text)
    url, problem = "rtsp://10.0.0.9:8554/yard/door", "Server returned 401 Unauthorized"
    state = {"url": url, "is_sending": False, "frames": 70, "connections": 2, "core_share": 0.031, "problem": problem}
    report: Any = {"job_uid": uid, "seq": 1, "results": [], "flags": ["no_broadcast"], "broadcast": state}
    browser.video.reports.take(report, node=EDGE, now=now())
    page = text_of(browser.get(f"/ui/video/{uid}").text)
    for text in (url, problem, "not sending", "70", "3.1 %"):
        assert text in page, text
    assert "not broadcast" in text_of(browser.get("/ui/video").text)
    shown = browser.get(f"/api/v2/video/jobs/{uid}").json()
    assert shown["broadcast"] == state
    line = f"{url}: not sending; 70 frames, 2 connections, 3% of a core; last problem: {problem}"
    assert line in "\n".join(job_lines(shown))


def test_what_speaks_against_a_video_stands_on_every_page_that_names_it(browser: Browser) -> None:
    job = browser.running()
    problem = "hall.mp4 is cut off: 57 of 120 frames are there"
    videos = {str(number): {"type": "hall", "name": f"{number}.mp4"} for number in (0, 1, 10, 2)}
    videos["1"]["problem"] = problem
    nodes = browser.container.nodes
    offers = {JOBS: {"address": "", "videos": videos}}
    report = replace(nodes.get(EDGE).report, offers=offers)
    nodes.report(EDGE, report, address="192.168.56.102", version="1", now=now())
    for path in ("/ui/video", f"/ui/video/{job.uid}", "/ui/video/new", "/ui/nodes", f"/ui/nodes/{EDGE}"):
        assert problem in text_of(browser.get(path).text), path
    assert text_of(browser.get("/ui/video").text).count(problem) == 1
    with browser.video.jobs.locked(USER, job.uid) as (conn, _):
        store.change(conn, job.uid, reason=f"{problem}. Offer another.")
    assert text_of(browser.get("/ui/video").text).count(problem) == 1  # and not once more as the reason of the job
    chosen = re.findall(rf'<option value="{EDGE}/(\d+)"', browser.get("/ui/video/new").text)
    assert chosen == ["0", "1", "2", "10"]
    status = browser.get("/user/get_all_status").json()["data"]
    assert [list(node["video"]) for node in status.values()] == [["0", "1", "2", "10"]]
