"""A new service, by form and as text."""

from __future__ import annotations

import html
import json
import re

import httpx
import pytest
import yaml

from app.joint_inference.hard_examples import load_algorithms
from app.joint_inference.pages.new_form import values_of
from app.kit.web.languages import catalogue
from tests.harness.joint.pages import FORM, SAMPLE, USER, Browser, resource
from tests.harness.page_text import text_of


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
    assert "\nclip.mp4</textarea>" in page.text and "<option selected>cloud0</option>" in page.text
    assert all(html.escape(value) in page.text for value in wrong.values() if value.strip())
    assert browser.container.joint.services.page(USER)[0] == []


def test_a_name_that_is_taken_is_said_and_nothing_typed_is_lost(browser: Browser) -> None:
    browser.make("faces")
    page = browser.send("/ui/services/new", FORM)
    assert page.status_code == 409 and "There is a service 'faces'" in text_of(page)
    assert "\nclip.mp4</textarea>" in page.text


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
    assert "\nclip.mp4</textarea>" in back.text
    for name in ("name", "max_upload_ratio", "IBT.threshold_box"):
        assert f'name="{name}" value="{FORM[name]}"' in back.text
    foreign = browser.send("/ui/services/new", {"mode": "yaml", "text": SAMPLE.read_text(), "action": "mode:form"})
    assert "stays YAML" in text_of(foreign) and "scriptBootFile" in foreign.text


def test_a_text_that_is_too_long_is_refused(browser: Browser) -> None:
    long = browser.send("/ui/services/new", {"mode": "yaml", "text": "#" * 2_000_000})
    assert long.status_code == 413


def test_what_algorithms_say_of_themselves_is_said_in_both_languages() -> None:
    texts = [
        text
        for one in load_algorithms().values()
        for text in (one.description, *(p.description for p in one.parameters))
    ]
    known = catalogue("zh-Hant")
    assert not [text for text in texts if text and text not in known]


def test_labels_in_the_form_stand_for_a_node_there_and_back(browser: Browser) -> None:
    browser.nodes()
    fields = {**FORM, "edge_node": "", "edge_selector": "site=berlin, floor=2"}
    as_text = browser.send("/ui/services/new", {**fields, "action": "mode:yaml"})
    assert "nodeSelector" in as_text.text and "berlin" in as_text.text
    wrong = browser.send("/ui/services/new", {**fields, "edge_selector": "berlin"})
    assert "no label" in field_errors(wrong)["edge_selector"] and 'value="berlin"' in wrong.text
    assert browser.send("/ui/services/new", fields).status_code == 303
    service = browser.container.joint.services.get(USER, "default", "faces")
    edge = service.specification.edge
    assert (edge.node, dict(edge.selector)) == ("", {"floor": "2", "site": "berlin"})
    whole = service.to_resource()
    named = {key: whole["metadata"][key] for key in ("name", "namespace")}
    values = values_of({**whole, "metadata": named})
    assert values is not None and (values["edge_node"], values["edge_selector"]) == ("", "floor=2 site=berlin")
