"""The pages of joint inference as a browser without scripts uses them, in front of the real services."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
import yaml

from app.bootstrap.container import Container
from app.inference.picture_codec import encode
from app.inference.prediction import Box, Prediction
from app.joint_inference import store
from app.joint_inference.calibration.service import Calibrations
from app.joint_inference.hard_examples import known
from app.joint_inference.model.resource import PLURAL, Service
from app.joint_inference.model.status import Condition, ConditionType, Reason, conditions_after
from app.joint_inference.model.tally import Breaker, Sample, Source, Tally
from app.joint_inference.pages import calibration_new
from app.joint_inference.service.task_info import UpstreamStatus
from app.kit.clock import now, to_text
from app.kit.web.languages import catalogue
from app.nodes.model import NodeReport, Side, WorkerReport, WorkerState, WorkKey
from app.settings import Settings
from tests.harness.browser import joint_records
from tests.harness.paths import SAMPLES
from tests.harness.training.page_text import polled, text_of
from tests.harness.users import OURS, Within, within

USER = "local"
SAMPLE = SAMPLES / "helmet" / "service.yaml"
FORM = {
    "mode": "form",
    "action": "submit",
    "name": "faces",
    "namespace": "default",
    "edge_node": "edge0",
    "edge_model": "small",
    "cloud_node": "cloud0",
    "cloud_model": "big",
    "algorithm": "IBT",
    "IBT.threshold_img": "0.9",
    "IBT.threshold_box": "0.7",
    "IBT.empty_is_hard": "false",
    "source": "clip.mp4",
    "max_upload_ratio": "0.3",
    "edge_parameters": "fps=5\nscore_threshold = 0.6\n",
    "cloud_parameters": "",
}


def worker(name: str, model: str, node: str) -> dict[str, Any]:
    plain = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "onnxruntime", "frameworkVersion": ""}
    return {"name": name, "model": {"name": model}, "nodeName": node, "workerSpec": {**plain, "parameters": []}}


def resource(name: str, edge: str = "small", cloud: str = "big") -> dict[str, Any]:
    edge_worker = {**worker("edgeworker", edge, "edge0"), "hardExampleAlgorithm": {"name": "IBT", "parameters": []}}
    return {
        "apiVersion": "neptune.io/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"edgeWorker": edge_worker, "cloudWorker": worker("cloudworker", cloud, "cloud0")},
    }


class Browser:
    """One who uses the pages; and what lies behind them, to make things happen."""

    def __init__(self, web: Within) -> None:
        self.web = web
        self.container: Container = web.app.state.container

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.web.get(path, **options)

    def send(self, path: str, fields: dict[str, str], **options: Any) -> httpx.Response:
        return self.web.post(path, data=fields, headers=OURS, **options)

    def make(self, name: str, user: str = USER, at: datetime | None = None, **models: str) -> Service:
        return self.container.joint.services.create(user, resource(name, **models), now=at or now())

    def condition(self, service: Service, type_: ConditionType, reason: Reason, message: str = "") -> None:
        with self.container.database.write() as conn:
            fresh = store.by_uid(conn, service.uid)
            assert fresh is not None
            known_ones = fresh.status.get("conditions", ())
            listed = conditions_after(known_ones, Condition(type_, reason, message), None, to_text(now()))
            store.change_service(conn, fresh, status={**fresh.status, "conditions": listed})

    def report(self, service: Service, tally: Tally) -> None:
        status = UpstreamStatus(status="running", uid=service.uid, task_info=tally.to_task_info())
        self.container.joint.reports.note(service.uid, status, now=now())

    def nodes(self, *workers: WorkerReport) -> None:
        for name, side in (("edge0", Side.EDGE), ("cloud0", Side.CLOUD)):
            if self.container.nodes.find(name) is None:
                self.container.nodes.register(name, side, now=now())
            told = NodeReport(workers=tuple(w for w in workers if w.key.part == side.value))
            self.container.nodes.report(name, told, address="127.0.0.1", version="1", now=now())

    def sample(self, service: Service, sample: Sample, side: int = 40) -> None:
        with self.container.database.write() as conn:
            self.container.nodes.order(
                conn,
                "edge0",
                WorkKey(PLURAL, service.uid, "edge"),
                namespace="default",
                name=service.name,
                generation=1,
                content={},
            )
        picture, kind = encode(np.zeros((side, side, 3), np.uint8))
        self.container.joint.reports.add_sample("edge0", service.uid, sample, picture, kind, now=now())

    def spec(self, name: str) -> Any:
        return self.container.joint.services.get(USER, "default", name).spec


@pytest.fixture
def browser(settings: Settings) -> Iterator[Browser]:
    with within(settings) as web:
        yield Browser(web)


def said_of(browser: Browser, service: Service, worker: str = "edge", **facts: Any) -> WorkerReport:
    usual: dict[str, Any] = {"state": WorkerState.RUNNING, "pid": 4711, "log": ("serving",)}
    return WorkerReport(
        WorkKey(PLURAL, service.uid, worker), "default", service.name, f"{worker}worker", 1, **{**usual, **facts}
    )


TALLY = replace(joint_records.TALLY, breaker=Breaker.OPEN, last_error="refused", update_time="2026-01-01T00:10:00.000Z")


# --- the list


def test_who_has_no_service_is_told_what_to_do_first(browser: Browser) -> None:
    page = browser.get("/ui/services")
    text = text_of(page)
    assert "No service yet" in text and "Start the demonstration" in text
    assert text.index("Add nodes") < text.index("Add models") < text.index("Make a service of them")
    for link in ("/ui/nodes", "/ui/models", "/ui/services/new"):
        assert f'href="{link}"' in page.text


def test_the_list_says_state_reason_workers_and_figures(browser: Browser) -> None:
    faces = browser.make("faces")
    browser.condition(faces, ConditionType.RUNNING, Reason.DEGRADED, "connection refused")
    browser.report(faces, TALLY)
    page = browser.get("/ui/services")
    text = text_of(page)
    assert "The edge answers alone: the cloud does not" in text and 'title="connection refused"' in page.text
    assert "edge0 → cloud0" in text and "small → big" in text
    assert "650 / 300 / 50" in text and "30.0 %" in text
    assert re.search(r'class="bar [^"]*" x="0" y="0" width="30.0"', page.text)


def test_a_service_that_reported_nothing_has_no_figures(browser: Browser) -> None:
    browser.make("faces")
    assert "nothing yet" in text_of(browser.get("/ui/services"))


def names_in(page: httpx.Response) -> list[str]:
    return re.findall(r'class="row-link" href="[^"]*">([^<]+)<', page.text)


def test_filters_narrow_the_list_and_a_state_that_is_none_is_refused(browser: Browser) -> None:
    one, _ = browser.make("faces-one"), browser.make("digits")
    browser.condition(one, ConditionType.FAILED, Reason.MODEL_NOT_FOUND)
    assert names_in(browser.get("/ui/services?q=faces")) == ["faces-one"]
    assert names_in(browser.get("/ui/services?state=Failed")) == ["faces-one"]
    assert "No service matches" in text_of(browser.get("/ui/services?q=face&state=Running"))
    assert browser.get("/ui/services?state=Wrong").status_code == 422
    assert browser.get("/ui/services?cursor=none").status_code == 422


def test_the_list_renews_itself_only_when_something_in_it_changed(browser: Browser) -> None:
    faces = browser.make("faces")
    (again,) = polled(browser.get("/ui/services?q=faces"))
    assert again.startswith("/ui/services/rows?q=faces") and browser.get(again).status_code == 204
    browser.condition(faces, ConditionType.FAILED, Reason.NODE_NOT_FOUND)
    renewed = browser.get(again, headers={"HX-Request": "true"})
    assert renewed.status_code == 200 and "A node is missing" in text_of(renewed) and polled(renewed) != [again]


def test_a_long_list_is_gone_through_by_links_and_keeps_its_filter(browser: Browser) -> None:
    begin = now() - timedelta(hours=1)
    made = [browser.make(f"one-{n:03d}", at=begin + timedelta(seconds=n)).name for n in range(103)]
    url, seen, pages = "/ui/services?q=one", [], 0
    while url:
        page = browser.get(url)
        seen += names_in(page)
        match = re.search(r'rel="next" href="([^"]+)"', page.text)
        url, pages = html.unescape(match[1]) if match else "", pages + 1
        assert "q=one" in url or not url
    assert pages == 3 and seen == made[::-1]


def test_more_services_need_no_more_queries(browser: Browser) -> None:
    """Not one for each row."""
    statements: list[str] = []
    engine = browser.container.database._engine
    sa.event.listen(engine, "before_cursor_execute", lambda *facts: statements.append(facts[2]))

    def queries() -> int:
        statements.clear()
        assert browser.get("/ui/services").status_code == 200
        return len([statement for statement in statements if "joint_" in statement or "node" in statement])

    browser.make("first")
    few = queries()
    for number in range(30):
        browser.make(f"further-{number}")
    assert queries() == few >= 1


# --- a new one


def test_the_form_makes_the_service_that_it_shows(browser: Browser) -> None:
    browser.nodes()
    shown = browser.send("/ui/services/new", {**FORM, "action": "preview"})
    assert shown.status_code == 200 and "threshold_box" in shown.text
    answer = browser.send("/ui/services/new", FORM)
    assert answer.status_code == 303 and answer.headers["location"] == "/ui/services/default/faces?note=created"
    service = browser.container.joint.services.get(USER, "default", "faces")
    specification = service.specification
    assert (specification.edge.node, specification.edge.model, specification.cloud.node, specification.cloud.model) == (
        "edge0",
        "small",
        "cloud0",
        "big",
    )
    assert specification.edge.parameters == {
        "source": "clip.mp4",
        "max_upload_ratio": "0.3",
        "fps": "5",
        "score_threshold": "0.6",
    }
    algorithm = specification.hard_example_parameters
    assert (algorithm["threshold_img"], algorithm["threshold_box"], algorithm["empty_is_hard"]) == (
        "0.9",
        "0.7",
        "false",
    )
    assert specification.edge.is_builtin
    text = re.search(r"<pre class=\"text-box\"[^>]*>(.*?)</pre>", shown.text, re.DOTALL)
    assert text and yaml.safe_load(html.unescape(text[1]))["spec"] == service.spec


def field_errors(page: httpx.Response) -> dict[str, str]:
    return {
        name: html.unescape(text)
        for name, text in re.findall(r'<p class="error" id="problem-([^"]+)">([^<]+)', page.text)
    }


@pytest.mark.parametrize(
    ("wrong", "field", "message"),
    [
        ({"name": ""}, "name", "needed"),
        ({"edge_node": ""}, "edge_node", "needed"),
        ({"cloud_model": " "}, "cloud_model", "needed"),
        ({"name": "Not A Name"}, "name", "small letters"),
        ({"namespace": "a.b"}, "namespace", "small letters"),
        ({"max_upload_ratio": "30 %"}, "max_upload_ratio", "from 0 to 1"),
        ({"max_upload_ratio": "2"}, "max_upload_ratio", "from 0 to 1"),
        ({"max_upload_ratio": "nan"}, "max_upload_ratio", "from 0 to 1"),
        ({"IBT.threshold_box": "high"}, "IBT-threshold_box", "threshold_box"),
        ({"IBT.threshold_img": "1.5"}, "IBT-threshold_img", "threshold_img"),
        ({"algorithm": "Guess"}, "algorithm", "no hard-example algorithm"),
        ({"edge_parameters": "fps=5\nnonsense"}, "edge_parameters", "Line 2 is no key=value: nonsense"),
        ({"cloud_parameters": "=5"}, "cloud_parameters", "Line 1"),
    ],
)
def test_what_is_wrong_in_the_form_stands_at_its_field_and_nothing_typed_is_lost(
    browser: Browser, wrong: dict[str, str], field: str, message: str
) -> None:
    page = browser.send("/ui/services/new", {**FORM, **wrong})
    assert page.status_code == 422
    assert message in field_errors(page)[field], field_errors(page)
    assert 'value="clip.mp4"' in page.text and "<option selected>cloud0</option>" in page.text
    assert all(html.escape(value) in page.text for value in wrong.values() if value.strip())
    assert browser.container.joint.services.page(USER)[0] == []


def test_a_name_that_is_taken_is_said_and_nothing_typed_is_lost(browser: Browser) -> None:
    browser.make("faces")
    page = browser.send("/ui/services/new", FORM)
    assert page.status_code == 409 and "There is a service 'faces'" in text_of(page) and 'value="clip.mp4"' in page.text


def test_a_link_may_fill_fields_in_and_known_models_and_nodes_are_offered(browser: Browser) -> None:
    browser.nodes()
    page = browser.get("/ui/services/new?edge_model=my-model&edge_node=edge0")
    assert 'name="edge_model" value="my-model"' in page.text
    assert re.search(r'<option value="edge0" selected>', page.text)
    edge, cloud = (
        re.search(rf'<select id="field-{n}_node".*?</select>', page.text, re.DOTALL) for n in ("edge", "cloud")
    )
    assert edge and cloud and "cloud0" not in edge[0] and "edge0" not in cloud[0]
    assert not field_errors(page)  # nothing has been sent yet


def test_without_nodes_the_form_leads_to_where_they_are_added(browser: Browser) -> None:
    page = browser.get("/ui/services/new")
    assert "There is none yet" in page.text and '<a href="/ui/nodes">Add a node</a>' in page.text


def test_the_sample_of_the_requirement_works_as_it_is(browser: Browser) -> None:
    answer = browser.send("/ui/services/new", {"mode": "yaml", "action": "submit", "text": SAMPLE.read_text()})
    assert answer.status_code == 303, text_of(answer)
    spec = browser.spec("helmet-detection-demo")
    assert spec["edgeWorker"]["workerSpec"]["frameworkVersion"] == "1.18"
    assert spec["cloudWorker"]["nodeName"] == "solar-corona-cloud"
    page = browser.get(answer.headers["location"])
    assert page.status_code == 200 and "edge_inference.py" in page.text


def test_a_file_stands_for_the_text(browser: Browser) -> None:
    files = {"file": ("service.yaml", SAMPLE.read_bytes(), "application/yaml")}
    answer = browser.send("/ui/services/new", {"mode": "yaml", "action": "submit", "text": "rubbish"}, files=files)
    assert answer.status_code == 303 and browser.spec("helmet-detection-demo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec: [", "is not readable YAML"),
        ("kind: JointInferenceService", "$.spec: is missing"),
        (json.dumps(resource("x") | {"spec": {"edgeWorker": 5}}), "$.spec.edgeWorker: must be an object"),
        ("a: 1\n---\nb: 2", "there are 2 documents"),
        ("", "there is nothing in it"),
    ],
)
def test_a_text_that_is_no_service_is_shown_again_with_the_paths_of_what_is_wrong(
    browser: Browser, text: str, message: str
) -> None:
    page = browser.send("/ui/services/new", {"mode": "yaml", "action": "submit", "text": text})
    assert page.status_code in (400, 422) and message in text_of(page)
    kept = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', page.text, re.DOTALL)
    assert kept and html.unescape(kept[1]) == text


def test_fields_that_are_not_known_are_named_before_they_are_left_out(browser: Browser) -> None:
    text = SAMPLE.read_text().replace("spec:\n", "spec:\n  replicas: 3\n", 1)
    page = browser.send("/ui/services/new/preview", {"mode": "yaml", "text": text})
    assert "spec.replicas" in page.text and "complete" in text_of(page)


def test_form_and_yaml_are_the_same_service_and_what_the_form_cannot_say_stays_yaml(browser: Browser) -> None:
    as_yaml = browser.send("/ui/services/new", {**FORM, "action": "mode:yaml"})
    text = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', as_yaml.text, re.DOTALL)
    assert text is not None
    back = browser.send("/ui/services/new", {"mode": "yaml", "text": html.unescape(text[1]), "action": "mode:form"})
    for name in ("name", "source", "max_upload_ratio", "IBT.threshold_box"):
        assert f'name="{name}" value="{FORM[name]}"' in back.text
    foreign = browser.send("/ui/services/new", {"mode": "yaml", "text": SAMPLE.read_text(), "action": "mode:form"})
    assert "stays YAML" in text_of(foreign) and "scriptBootFile" in foreign.text


def test_a_text_that_is_too_long_is_refused(browser: Browser) -> None:
    long = browser.send("/ui/services/new", {"mode": "yaml", "text": "#" * 2_000_000})
    assert long.status_code == 413


def test_what_algorithms_say_of_themselves_is_said_in_both_languages() -> None:
    texts = [text for one in known().values() for text in (one.description, *(p.description for p in one.parameters))]
    missing = [text for text in texts if text and not (catalogue("zh-Hant").get(text))]
    assert not missing


# --- one service


@pytest.mark.parametrize(
    ("type_", "reason", "words", "link"),
    [
        (ConditionType.FAILED, Reason.MODEL_NOT_FOUND, "A model is missing", "/ui/models"),
        (ConditionType.FAILED, Reason.NODE_NOT_FOUND, "A node is missing", "/ui/nodes"),
        (ConditionType.PENDING, Reason.NODE_OFFLINE, "A node is offline", "/ui/nodes"),
        (ConditionType.FAILED, Reason.BAD_PARAMETERS, "A parameter is wrong", "/ui/services/default/faces/edit"),
        (ConditionType.FAILED, Reason.DATASET_NOT_FOUND, "A dataset is missing", "/ui/data"),
    ],
)
def test_a_state_says_why_and_leads_to_where_it_is_mended(
    browser: Browser, type_: ConditionType, reason: Reason, words: str, link: str
) -> None:
    browser.condition(browser.make("faces"), type_, reason, "the controller's own <words>")
    page = browser.get("/ui/services/default/faces")
    notice = re.search(r'<div class="notice [^"]*" role="status">.*?</div></div>', page.text, re.DOTALL)
    assert notice and words in notice[0] and link in notice[0] and "the controller&#39;s own &lt;words&gt;" in notice[0]


@pytest.mark.parametrize(
    ("type_", "reason", "look"),
    [
        (ConditionType.RUNNING, Reason.SERVING, "ok"),
        (ConditionType.RUNNING, Reason.SOURCE_ENDED, "busy"),
        (ConditionType.FAILED, Reason.SOURCE_UNAVAILABLE, "bad"),
    ],
)
def test_nothing_but_serving_is_green_in_the_list(
    browser: Browser, type_: ConditionType, reason: Reason, look: str
) -> None:
    browser.condition(browser.make("faces"), type_, reason)
    assert f'<span class="badge {look}' in browser.get("/ui/services").text


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(browser: Browser, reason: Reason) -> None:
    browser.condition(browser.make("faces"), ConditionType.PENDING, reason)
    live = browser.get("/ui/services/default/faces/live").text
    assert f"<strong>{reason.value}</strong>" not in live


def test_figures_are_those_that_were_reported(browser: Browser) -> None:
    faces = browser.make("faces")
    browser.report(faces, TALLY)
    text = text_of(browser.get("/ui/services/default/faces"))
    for what in (
        "Pictures 1,000",
        "By the edge 650",
        "By the cloud 300",
        "By the edge as fallback 50",
        "Hard, but kept 60",
        "Uploaded 30.0 %",
        "Sent up 3.0 MiB",
        "Pictures a second 24.5",
        "paused after errors",
        "Last trouble with the cloud: refused",
    ):
        assert what in text


def test_a_worker_that_says_no_more_than_the_requirement_is_shown(browser: Browser) -> None:
    faces = browser.make("faces")
    info = {"inferenceNumber": 1000, "hardExampleNumber": 100, "uploadCloudRatio": 0.1}
    status = UpstreamStatus(status="running", uid=faces.uid, task_info=info)
    browser.container.joint.reports.note(faces.uid, status, now=now())
    text = text_of(browser.get("/ui/services/default/faces"))
    assert "By the edge 900" in text and "By the cloud 100" in text and "Sent up" not in text


def test_plots_are_drawn_of_what_was_reported_over_time(browser: Browser) -> None:
    faces = browser.make("faces")
    assert '<svg class="plot"' not in browser.get("/ui/services/default/faces").text
    for minute in range(3):
        at = now() - timedelta(minutes=3 - minute)
        counts = {"inferences": 100 + minute * 100, "uploaded": 10 + minute * 50, "update_time": to_text(at)}
        status = UpstreamStatus(
            status="running", uid=faces.uid, task_info=Tally(edge_ms_p50=5.0, **counts).to_task_info()
        )
        browser.container.joint.reports.note(faces.uid, status, now=at)
    page = browser.get("/ui/services/default/faces").text
    assert len(re.findall('<svg class="plot"', page)) == 2
    drawn = re.search(r'line-upload-now" d="([^"]+)"', page)
    assert drawn and len(drawn[1].split("L")) == 2  # two stretches between three reports, both at 50 %
    heights = {point.split()[1] for point in drawn[1].replace("L", "M").split("M") if point.strip()}
    assert len(heights) == 1


def test_workers_say_what_runs_them_and_why_not_what_was_named(browser: Browser) -> None:
    faces = browser.make("faces")
    detail = {"runtime": "ONNX twin", "why": "no NPU was found", "damagedNumber": 3}
    browser.nodes(
        said_of(browser, faces, detail=detail, address="127.0.0.1:9"),
        said_of(
            browser,
            faces,
            "cloud",
            state=WorkerState.FAILED,
            pid=0,
            restarts=3,
            exit_code=-9,
            reason="Crashed",
            message="It ended 3 times.",
            log=("first", "<last>"),
        ),
    )
    page = browser.get("/ui/services/default/faces")
    text = text_of(page)
    for what in (
        "ONNX twin",
        "no NPU was found",
        "4711",
        "127.0.0.1:9",
        "3 · ended by signal 9",
        "It ended 3 times.",
        "Damaged frames 3",
    ):
        assert what in text
    assert "first\n&lt;last&gt;" in page.text


def test_a_node_that_is_not_there_and_one_that_is_silent_are_told_apart(browser: Browser) -> None:
    browser.make("faces")
    assert "no such node" in text_of(browser.get("/ui/services/default/faces"))
    for name, side in (("edge0", Side.EDGE), ("cloud0", Side.CLOUD)):
        browser.container.nodes.register(name, side, now=now())
    text = text_of(browser.get("/ui/services/default/faces"))
    assert "node offline" in text and "no such node" not in text


def hard_sample(**facts: Any) -> Sample:
    usual: dict[str, Any] = {
        "id": "s1",
        "at": to_text(now()),
        "width": 40,
        "height": 40,
        "why": "2 of 4 boxes ≤ 0.90",
        "score": 0.5,
        "source": Source.CLOUD,
        "edge": Prediction(boxes=(Box(1, 2, 11, 22, 0.61),)),
        "edge_ms": 6.1,
        "cloud_ms": 44.0,
        "cloud": Prediction(boxes=(Box(1, 2, 11, 22, 0.97), Box(20, 20, 30, 30, 0.8, 1))),
        "labels": ("face", "hat"),
    }
    return Sample(**{**usual, **facts})


def test_a_hard_sample_shows_both_answers_in_pixels_of_its_picture(browser: Browser) -> None:
    faces = browser.make("faces")
    browser.nodes()
    browser.sample(faces, hard_sample())
    page = browser.get("/ui/services/default/faces")
    edge, cloud = re.findall(r'<svg class="boxes boxes-\w+" viewBox="0 0 40 40".*?</svg>', page.text, re.DOTALL)
    assert '<rect x="1.0" y="2.0" width="10.0" height="20.0">' in edge
    assert edge.count("<rect") == 1 and cloud.count("<rect") == 2
    text = text_of(page)
    assert "2 of 4 boxes ≤ 0.90" in text and "Final answer: Cloud" in text and "44.0 ms" in text and "hat" in text
    picture = browser.get("/ui/services/default/faces/samples/s1")
    assert picture.headers["content-type"] == "image/jpeg" and picture.content[:2] == b"\xff\xd8"
    assert browser.get("/ui/services/default/faces/samples/s2").status_code == 404


def test_a_classifiers_answers_are_its_likeliest_classes(browser: Browser) -> None:
    digits = browser.make("digits")
    browser.nodes()
    answers = {
        "edge": Prediction(probabilities=(0.5, 0.4, 0.1, 0.0)),
        "cloud": Prediction(probabilities=(0.1, 0.9, 0, 0)),
    }
    browser.sample(digits, hard_sample(**answers, labels=("zero", "one", "two")))
    text = text_of(browser.get("/ui/services/default/digits"))
    assert "zero 0.50 one 0.40 two 0.10" in text and "one 0.90 zero 0.10" in text


def test_a_sample_without_an_answer_from_the_cloud_says_so(browser: Browser) -> None:
    faces = browser.make("faces")
    browser.nodes()
    browser.sample(faces, hard_sample(source=Source.EDGE_FALLBACK, cloud=None, cloud_ms=None))
    browser.sample(faces, hard_sample(id="s2", source=Source.EDGE, cloud=None, cloud_ms=None))
    text = text_of(browser.get("/ui/services/default/faces"))
    assert "no answer in time" in text and "Edge, as the fallback" in text and "not asked" in text


def test_changes_are_seen_without_a_reload(browser: Browser) -> None:
    faces = browser.make("faces")
    (again,) = polled(browser.get("/ui/services/default/faces"))
    browser.condition(faces, ConditionType.FAILED, Reason.WORKER_FAILED, "it crashed")
    renewed = browser.get(again)
    assert renewed.status_code == 200 and "it crashed" in renewed.text
    assert "Failed · A worker failed" in text_of(renewed)  # in the list of what happened, too
    (again,) = polled(renewed)
    browser.report(faces, TALLY)
    assert "1,000" in browser.get(again).text


def test_what_is_shown_already_is_not_sent_again(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.joint_inference.pages.service.REDRAWN_S", 10**9)
    browser.make("faces")
    (again,) = polled(browser.get("/ui/services/default/faces"))
    assert browser.get(again).status_code == 204


def test_a_page_of_a_service_that_went_is_read_anew(browser: Browser) -> None:
    answer = browser.get("/ui/services/default/gone/live?seen=x")
    assert answer.status_code == 200 and answer.headers["hx-refresh"] == "true"
    assert browser.get("/ui/services/default/gone").status_code == 404


def test_the_yaml_that_is_downloaded_makes_the_same_service_again(browser: Browser) -> None:
    made = browser.send("/ui/services/new", {**FORM, "cloud_parameters": "note=yes\nodd=a: b # c"})
    assert made.status_code == 303
    answer = browser.get("/ui/services/default/faces/yaml")
    assert 'filename="faces.yaml"' in answer.headers["content-disposition"]
    before = browser.spec("faces")
    text = answer.text.replace("name: faces", "name: again", 1)
    assert browser.send("/ui/services/new", {"mode": "yaml", "action": "submit", "text": text}).status_code == 303
    assert browser.spec("again") == before


# --- change and delete


def generation_of(page: httpx.Response) -> str:
    match = re.search(r'name="generation" value="(\d+)"', page.text)
    assert match
    return match[1]


def test_the_yaml_can_be_changed(browser: Browser) -> None:
    browser.make("faces")
    page = browser.get("/ui/services/default/faces/edit")
    text = yaml.safe_dump(resource("faces", edge="another"))
    sent = {"text": text, "generation": generation_of(page)}
    answer = browser.send("/ui/services/default/faces/edit", sent)
    assert answer.status_code == 303 and browser.spec("faces")["edgeWorker"]["model"]["name"] == "another"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec: [", "is not readable YAML"),
        (yaml.safe_dump(resource("other")), "name"),
        (yaml.safe_dump({**resource("faces"), "spec": {}}), "$.spec.edgeWorker: is missing"),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_the_text_stays(browser: Browser, text: str, message: str) -> None:
    browser.make("faces")
    page = browser.send("/ui/services/default/faces/edit", {"text": text, "generation": "1"})
    assert (
        page.status_code in (400, 409, 422)
        and message in text_of(page)
        and html.escape(text, quote=False)[:5] in page.text
    )
    assert browser.spec("faces") == resource("faces")["spec"]


def test_what_another_changed_meanwhile_is_not_overwritten_unseen(browser: Browser) -> None:
    browser.make("faces")
    seen = generation_of(browser.get("/ui/services/default/faces/edit"))
    patch = {"spec": {"edgeWorker": {"model": {"name": "theirs"}}}}
    browser.container.joint.services.merge(USER, "default", "faces", patch, now=now())
    text = yaml.safe_dump(resource("faces", edge="mine"))
    refused = browser.send("/ui/services/default/faces/edit", {"text": text, "generation": seen})
    assert refused.status_code == 409 and "changed meanwhile" in text_of(refused) and "mine" in refused.text
    again = {"text": text, "generation": generation_of(refused)}
    assert browser.send("/ui/services/default/faces/edit", again).status_code == 303
    assert browser.spec("faces")["edgeWorker"]["model"]["name"] == "mine"


def test_deleting_asks_first_and_then_says_what_goes_on(browser: Browser) -> None:
    faces = browser.make("faces")
    question = browser.get("/ui/services/default/faces/delete")
    assert "Delete this service?" in text_of(question) and names_in(browser.get("/ui/services")) == ["faces"]
    answer = browser.send("/ui/services/default/faces/delete", {})
    assert answer.status_code == 303
    assert "its workers are ended first" in text_of(browser.get(answer.headers["location"]))
    assert "Being deleted" in text_of(browser.get("/ui/services/default/faces"))
    browser.container.joint.controller.reconcile(faces.uid, now=now())
    assert browser.get("/ui/services/default/faces").status_code == 404


# --- calibration


@pytest.fixture
def calibrations(browser: Browser, shared_data: Path) -> Calibrations:
    for name, file in (("small", "digits_small"), ("big", "digits_big")):
        chunks = [(shared_data / f"models/{file}.onnx").read_bytes()]
        browser.container.models.add_upload(USER, name, chunks, now=now())
    browser.make("digits")
    return browser.container.calibrations


def begun(browser: Browser, data: bytes, name: str = "set.npz") -> str:
    answer = browser.web.post("/ui/services/default/digits/calibrate", files={"samples": (name, data)}, headers=OURS)
    assert answer.status_code == 303, text_of(answer)
    return str(answer.headers["location"]).rpartition("/")[2]


@pytest.mark.slow
def test_a_calibration_from_the_upload_to_the_service(
    browser: Browser, calibrations: Calibrations, shared_data: Path
) -> None:
    made = begun(browser, (shared_data / "images/digits_test.npz").read_bytes())
    waiting = browser.get(f"/ui/calibrations/{made}")
    assert "It waits for a worker" in text_of(waiting)
    (again,) = polled(waiting)
    assert browser.get(again).status_code == 204
    calibrations.run(made, now=now())
    assert browser.get(again).headers["hx-refresh"] == "true"
    page = browser.get(f"/ui/calibrations/{made}?budget=50")
    text = text_of(page)
    assert "899 samples" in text and "edge alone 83.9 %" in text and "cloud alone 97.3 %" in text
    assert "The best with at most 50 % going up" in text and "97." in text
    for kind in ("front", "edge-only", "cloud-only", "chance"):
        assert f"line-{kind}" in page.text
    none_up = text_of(browser.get(f"/ui/calibrations/{made}/pick?budget=0"))
    assert "Uploaded 0.0 %" in none_up and "83.87 %" in none_up
    ask = re.search(r'class="btn btn-primary" href="([^"]+/apply\?setting=(\d+))"', page.text)
    assert ask is not None
    before = browser.spec("digits")
    confirm = browser.get(html.unescape(ask[1]))
    assert "Use this setting?" in text_of(confirm) and "IBT" in text_of(confirm) and browser.spec("digits") == before
    applied = browser.send(f"/ui/calibrations/{made}/apply", {"setting": ask[2]})
    assert applied.status_code == 303
    setting = calibrations.sweep(USER, made).settings[int(ask[2])]
    algorithm = browser.spec("digits")["edgeWorker"]["hardExampleAlgorithm"]
    assert algorithm["name"] == setting.algorithm
    assert {pair["key"]: pair["value"] for pair in algorithm["parameters"]} == setting.parameters
    assert "The setting is in the service now" in text_of(browser.get(applied.headers["location"]))
    assert browser.get(f"/ui/calibrations/{made}/apply?setting=99999").status_code == 404
    assert browser.get(f"/ui/calibrations/{made}?budget=101").status_code == 422


def test_a_calibration_that_failed_says_why(browser: Browser, calibrations: Calibrations) -> None:
    made = begun(browser, b"no samples at all", "holiday.zip")
    calibrations.run(made, now=now())
    text = text_of(browser.get(f"/ui/calibrations/{made}"))
    assert "The calibration failed" in text and "no zip and no .npz" in text and "Try again" in text
    assert browser.get(f"/ui/calibrations/{made}/apply?setting=0").status_code == 409
    earlier = text_of(browser.get("/ui/services/default/digits/calibrate"))
    assert "holiday.zip" in earlier and "Failed" in earlier


def test_samples_must_be_sent_and_may_not_be_too_many_bytes(
    browser: Browser, calibrations: Calibrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "/ui/services/default/digits/calibrate"
    none = browser.web.post(url, files={"samples": ("", b"")}, headers=OURS)
    assert none.status_code == 422 and "No samples were sent" in text_of(none)
    monkeypatch.setattr(calibration_new, "MAX_SET_BYTES", 10)
    large = browser.web.post(url, files={"samples": ("a.zip", b"x" * 11)}, headers=OURS)
    assert large.status_code == 413 and "A set of samples may have" in text_of(large)
    assert not calibrations.of_service(USER, "default", "digits")
    unknown = browser.web.post("/ui/services/default/other/calibrate", files={"samples": ("a", b"x")}, headers=OURS)
    assert unknown.status_code == 404


def test_a_calibration_outlives_its_service_but_has_nothing_to_change_then(
    browser: Browser, calibrations: Calibrations, shared_data: Path
) -> None:
    arrays = np.load(shared_data / "images/digits_test.npz")
    file = browser.container.settings.data_dir / "few.npz"
    np.savez(file, x=arrays["x"][:20], y=arrays["y"][:20])
    made = begun(browser, file.read_bytes())
    calibrations.run(made, now=now())
    service = browser.container.joint.services.delete(USER, "default", "digits", now=now())
    browser.container.joint.controller.reconcile(service.uid, now=now())
    page = browser.get(f"/ui/calibrations/{made}")
    assert page.status_code == 200 and "not there any more" in text_of(page) and "/apply?setting" not in page.text
    assert browser.send(f"/ui/calibrations/{made}/apply", {"setting": "0"}).status_code == 404


# --- another's


def test_anothers_service_and_calibration_do_not_exist(
    browser: Browser, calibrations: Calibrations, tmp_path: Path
) -> None:
    browser.make("theirs", user="mallory")
    (tmp_path / "set").write_bytes(b"x")
    made = calibrations.ask("mallory", "default", "theirs", tmp_path / "set", "set", now=now())
    at = "/ui/services/default/theirs"
    for path in (at, f"{at}/yaml", f"{at}/samples/s1", f"{at}/edit", f"{at}/delete", f"{at}/calibrate"):
        assert browser.get(path).status_code == 404, path
    for path in (f"{at}/edit", f"{at}/delete"):
        assert browser.send(path, {"text": ""}).status_code == 404, path
    for path in ("", "/pick", "/apply?setting=0"):
        assert browser.get(f"/ui/calibrations/{made.calibration_id}{path}").status_code == 404, path
    assert browser.send(f"/ui/calibrations/{made.calibration_id}/apply", {"setting": "0"}).status_code == 404
    assert "theirs" not in names_in(browser.get("/ui/services"))
