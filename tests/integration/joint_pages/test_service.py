"""The page of a service."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Box, Prediction
from app.joint_inference import store
from app.joint_inference.model.rollout import ROLLOUT, Rollout, RolloutState
from app.joint_inference.model.status import ConditionType, Reason
from app.joint_inference.model.tally import Sample, Source, Tally
from app.joint_inference.service.task_info import UpstreamStatus
from app.kit.clock import now, to_text
from app.nodes.model import Side, WorkerState
from tests.harness.joint.pages import FORM, TALLY, Browser, worker_report
from tests.harness.page_text import polled, text_of


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
        "Fallback to the edge 50",
        "Hard, not uploaded 60",
        "Uploaded 30.0 %",
        "Data uploaded 3.0 MiB",
        "Pictures a second 24.5",
        "paused after errors",
        "Last error: refused",
    ):
        assert what in text


def test_a_worker_that_says_no_more_than_the_requirement_is_shown(browser: Browser) -> None:
    faces = browser.make("faces")
    info = {"inferenceNumber": 1000, "hardExampleNumber": 100, "uploadCloudRatio": 0.1}
    status = UpstreamStatus(status="running", uid=faces.uid, task_info=info)
    browser.container.joint.reports.note(faces.uid, status, now=now())
    text = text_of(browser.get("/ui/services/default/faces"))
    assert "By the edge 900" in text and "By the cloud 100" in text and "Data uploaded" not in text


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
        worker_report(browser, faces, detail=detail, address="127.0.0.1:9"),
        worker_report(
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


def test_the_buttons_of_a_roll_out_do_what_they_say(browser: Browser) -> None:
    old, new = (ModelCard(f"small@{version}", Format.ONNX, str(version) * 64, 1) for version in (1, 2))
    joint = browser.container.joint
    made = browser.make("faces")
    document = made.to_resource()
    document["spec"]["edgeWorker"]["rollout"] = {}
    changed = joint.services.replace(made.owner, "default", "faces", document, now=now())
    rollout = Rollout(old, new, RolloutState.PROGRESSING, wave_at=to_text(now()), nodes=("edge0",))
    with browser.container.database.write() as conn:
        store.change_service(conn, changed, rollout=ROLLOUT.write(rollout))
    place = "/ui/services/default/faces"

    def buttons() -> list[str]:
        return re.findall(r'name="action" value="([^"]+)"', browser.get(place).text)

    assert buttons() == ["pause", "roll-back", "promote"]
    for action, then in (("pause", ["resume", "roll-back", "promote"]), ("roll-back", ["retry", "promote"])):
        assert browser.send(f"{place}/rollout", {"action": action}).status_code == 303
        assert buttons() == then
    assert "Its user took it back." in browser.get(place).text
    assert browser.send(f"{place}/rollout", {"action": "pause"}).status_code == 303, "it went on meanwhile"
    assert browser.send(f"{place}/rollout", {"action": "promote"}).status_code == 303
    assert buttons() == []
    reasons = [event.reason for event in joint.services.events(made.owner, "default", "faces")]
    assert [r for r in reasons if r.startswith("Rol")] == ["RolloutComplete", "RolledBack", "RolloutPaused"]
