"""The requirement's own sample through every interface, what lacks a field at each, and what time alone does."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
import yaml

from app.bootstrap.container import Container
from app.inference.prediction import Decoder
from app.joint_inference import store
from app.joint_inference.service.controller import HEARTBEAT_S
from app.kit.clock import from_text, now, to_text
from app.model_registry.errors import ModelInUse
from tests.harness.api import small_model
from tests.harness.joint.nodes import Env, helmet
from tests.harness.joint.pages import names_in
from tests.harness.kubernetes import SAMPLE, path
from tests.harness.users import OURS, Within
from tests.harness.variants import exhaustive

REQUIRED = """\
apiVersion: neptune.io/v1alpha1
kind: JointInferenceService
metadata:
  name: helmet-detection-demo
  namespace: default
spec:
  edgeWorker:
    name: "edgeworker"
    model:
      name: "small-model"
    nodeName: "edge0"
    hardExampleAlgorithm:
      name: "IBT"
    workerSpec:
      scriptDir: "/code"
      scriptBootFile: "edge_inference.py"
      frameworkType: "tensorflow"
      frameworkVersion: "1.18"
      parameters:
        - key: "nms_threshold"
          value: "0.6"
  cloudWorker:
    name: "work"
    model:
      name: "big-model"
    nodeName: "solar-corona-cloud"
    workerSpec:
      scriptDir: "/code"
      scriptBootFile: "cloud_inference.py"
      frameworkType: "tensorflow"
      frameworkVersion: "1.18"
      parameters:
        - key: "nms_threshold"
          value: "0.6"
"""
"""The sample as the requirement gives it."""
NAME = "helmet-detection-demo"
API, PAGE, CLUSTER = "/api/v2/services", "/ui/services/new", path()
INTERFACES = ("api", "page", "file", "kubernetes")


def send(web: Within, interface: str, text: str) -> httpx.Response:
    fields = {"mode": "yaml", "action": "submit"}
    if interface == "api":
        return web.post(API, content=text, headers={"Content-Type": "application/yaml"})
    if interface == "page":
        return web.post(PAGE, data={**fields, "text": text}, headers=OURS)
    if interface == "file":
        return web.post(PAGE, data=fields, files={"file": ("jis.yaml", text, "application/yaml")}, headers=OURS)
    return web.post(CLUSTER, content=text, headers={"Content-Type": "application/yaml"})


def container_of(web: Within) -> Container:
    container: Container = web.app.state.container
    return container


def stored(web: Within) -> list[Any]:
    container = container_of(web)
    return list(container.joint.services.all(container.settings.local_user)[0])


def test_the_sample_that_is_shipped_is_the_requirements() -> None:
    assert yaml.safe_load(SAMPLE.read_text()) == yaml.safe_load(REQUIRED)


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_sample_of_the_requirement_is_taken_unchanged(web: Within, interface: str) -> None:
    answer = send(web, interface, REQUIRED)
    assert answer.status_code == (201 if interface in ("api", "kubernetes") else 303), answer.text
    (service,) = stored(web)
    sample = yaml.safe_load(REQUIRED)
    assert (service.namespace, service.name, service.spec) == ("default", NAME, sample["spec"])
    assert web.get(f"{API}/default/{NAME}").json()["resource"]["spec"] == sample["spec"]
    assert web.get(path(NAME)).json()["spec"] == sample["spec"]


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Of every field below spec: in the sample all that may be there is there."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        if isinstance(value, dict):
            yield (*at, key)
        yield from places(entry, (*at, key))


OPTIONAL = "parameters"
MISSING = [at for at in places(yaml.safe_load(REQUIRED)["spec"]) if at[-1] != OPTIONAL]


def said(at: tuple[str | int, ...]) -> str:
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)


def damaged(at: tuple[str | int, ...], *value: Any) -> str:
    """The sample without a field, or with another value in it."""
    resource = copy.deepcopy(yaml.safe_load(REQUIRED))
    inside = resource["spec"]
    for part in at[:-1]:
        inside = inside[part]
    del inside[at[-1]]
    if value:
        inside[at[-1]] = value[0]
    return yaml.safe_dump(resource)


def test_twenty_six_fields_are_required() -> None:
    assert len(MISSING) == 26


@pytest.mark.parametrize("at", [*MISSING[:1], *MISSING[-1:], *exhaustive(*((at,) for at in MISSING[1:-1]))], ids=said)
def test_no_interface_takes_a_service_that_lacks_a_field_or_has_one_of_another_type(
    web: Within, at: tuple[str | int, ...]
) -> None:
    for text, what in ((damaged(at), "is missing"), (damaged(at, 7), "must be ")):
        answer = send(web, "api", text)
        assert answer.status_code == 422
        (problem,) = answer.json()["error"]["detail"]["problems"]
        assert problem["path"] == f"$.{said(at)}"
        assert problem["message"].startswith(what)
        for interface in ("page", "file"):
            page = send(web, interface, text)
            assert page.status_code == 422
            assert f"$.{said(at)}: {what}" in page.text
        refused = send(web, "kubernetes", text)
        assert refused.status_code == 422
        assert [cause["field"] for cause in refused.json()["details"]["causes"]] == [said(at)]
    container = container_of(web)
    assert stored(web) == []
    with container.database.read() as conn:
        assert store.not_settled(conn, "9999", 10) == [], "nobody has anything to look at"


# --- pairs of models
def pair(web: Within, **decoders: Decoder) -> None:
    """The two models of the sample, each read as its decoder says."""
    container = container_of(web)
    for name, decoder in decoders.items():
        user, chunks = container.settings.local_user, [small_model()]
        container.models.add_upload(user, f"{name}-model", chunks, now=now(), decoder=decoder)


def test_models_for_different_tasks_are_refused_with_the_reason(web: Within) -> None:
    pair(web, small=Decoder.YOLOX, big=Decoder.CLASSIFIER)
    answers = {interface: send(web, interface, yaml.safe_dump(helmet(NAME))) for interface in INTERFACES}
    assert {answer.status_code for answer in answers.values()} == {422}
    for interface, answer in answers.items():
        assert "finds boxes" in answer.text and "classes apart" in answer.text, interface
    (cause,) = answers["kubernetes"].json()["details"]["causes"]
    assert cause["field"] == "spec.cloudWorker.model.name"
    assert stored(web) == []


def test_of_a_dry_run_and_of_a_change_models_for_different_tasks_are_refused_too(web: Within) -> None:
    pair(web, small=Decoder.YOLOX)
    assert send(web, "api", yaml.safe_dump(helmet(NAME))).status_code == 201, "of the other model nothing is known yet"
    pair(web, big=Decoder.CLASSIFIER)
    text, kind = yaml.safe_dump(helmet("twin")), {"Content-Type": "application/yaml"}
    assert web.post(f"{CLUSTER}?dryRun=All", content=text, headers=kind).status_code == 422
    merge = {"Content-Type": "application/merge-patch+json"}
    labels = web.request("PATCH", path(NAME), json={"metadata": {"labels": {"a": "b"}}}, headers=merge)
    assert labels.status_code == 200, "what was taken before is changed in all that makes no pair"
    parameters = {"spec": {"edgeWorker": {"hardExampleAlgorithm": {"name": "CloudOnly"}}}}
    for query in ("", "?dryRun=All"):
        answer = web.request("PATCH", f"{path(NAME)}{query}", json=parameters, headers=merge)
        assert answer.status_code == 422 and "finds boxes" in answer.text


# --- conditions over time ---------------------------------------------------------------------------------
@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)


def the_service(env: Env) -> Any:
    return env.container.joint.services.get(env.user, "default", "helmet")


def create(env: Env) -> None:
    env.container.joint.services.create(env.user, helmet(), now=env.now)


def times(env: Env) -> tuple[datetime, datetime]:
    """Heartbeat and transition of the current condition."""
    last = the_service(env).status["conditions"][-1]
    return from_text(last["lastHeartbeatTime"]), from_text(last["lastTransitionTime"])


def test_a_model_that_a_service_names_cannot_be_removed_before_the_service(env: Env) -> None:
    joint, models = env.container.joint.services, env.container.models
    joint.create(env.user, helmet("gate", namespace="shop"), now=env.now)
    env.settle()
    for name in ("small-model", "big-model"):
        with pytest.raises(ModelInUse, match=f"{name}.*service shop/gate"):
            models.remove(env.user, name)
    joint.delete(env.user, "shop", "gate", now=env.now)
    models.remove(env.user, "small-model")
    assert models.find(env.user, "small-model", now=env.now) is None


def test_a_heartbeat_comes_every_period_and_a_transition_only_with_a_change(env: Env) -> None:
    create(env)
    env.settle()
    heartbeat, transition = times(env)
    started = the_service(env).status["startTime"]
    for _ in range(3):
        env.now = heartbeat + timedelta(seconds=HEARTBEAT_S - 2)
        env.step()
        assert times(env) == (heartbeat, transition), "the period is not over"
        env.now = heartbeat + timedelta(seconds=HEARTBEAT_S)
        assert the_service(env).uid in env.container.joint.controller.due(env.now + timedelta(seconds=HEARTBEAT_S))
        env.step()
        assert times(env)[0] >= heartbeat + timedelta(seconds=HEARTBEAT_S)
        assert times(env)[1] == transition
        heartbeat = times(env)[0]
    due = env.container.joint.controller.due
    assert the_service(env).uid not in due(heartbeat + timedelta(seconds=1))
    assert the_service(env).uid in due(heartbeat - timedelta(hours=1)), "the clock was set back"
    env.fail("edge", log=("no",))
    env.settle()
    assert times(env)[1] > transition
    assert the_service(env).status["startTime"] == started


def test_a_failure_says_who_it_was_how_it_ended_and_its_last_twenty_lines(env: Env) -> None:
    create(env)
    env.settle()
    env.fail("edge", log=tuple(f"line {number}." for number in range(30)), exit_code=7)
    env.settle()
    last = the_service(env).status["conditions"][-1]
    assert (last["type"], last["status"], last["reason"]) == ("Failed", "True", "WorkerFailed")
    assert "edgeworker" in last["message"]
    assert "exit code 7" in last["message"]
    assert re.findall(r"line \d+\.", last["message"]) == [f"line {number}." for number in range(10, 30)]


# --- the page of many -------------------------------------------------------------------------------------
@pytest.mark.exhaustive
def test_a_thousand_services_are_gone_through_page_by_page_and_narrowed(web: Within) -> None:
    container, begin = container_of(web), now() - timedelta(days=1)
    first = container.joint.services.create(container.settings.local_user, helmet("many-0000"), now=begin)
    with container.database.write() as conn:  # in one transaction, which is quicker
        for number in range(1, 1000):
            at = to_text(begin + timedelta(seconds=number))
            store.add_service(conn, replace(first, uid=f"{number}", name=f"many-{number:04}", created_at=at), at)
    url, seen, pages = "/ui/services", list[str](), 0
    while url:
        page = web.get(url)
        assert page.status_code == 200
        here = names_in(page)
        assert 0 < len(here) <= 100, "a page stays one that can be read"
        seen, pages = seen + here, pages + 1
        match = re.search(r'rel="next" href="([^"]+)"', page.text)
        url = match[1].replace("&amp;", "&") if match else ""
    assert seen == [f"many-{number:04}" for number in reversed(range(1000))]
    assert pages >= 10
    assert listed(web) == seen
    assert names_in(web.get("/ui/services?q=many-077")) == [f"many-{number:04}" for number in range(779, 769, -1)]
    assert names_in(web.get("/ui/services?q=many-0770&state=Pending")) == ["many-0770"]
    narrowed = web.get(API, params={"q": "many-077", "limit": 500}).json()
    assert narrowed["next_cursor"] is None
    assert names_in(web.get("/ui/services?q=many-0770&state=Running")) == []


def listed(web: Within) -> list[str]:
    """By the API, page by page."""
    seen, cursor = list[str](), None
    while True:
        query = {"limit": 300, **({"cursor": cursor} if cursor else {})}
        page = web.get(API, params=query).json()
        assert len(page["services"]) <= 300
        seen += [service["name"] for service in page["services"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return seen


def notices(page: httpx.Response) -> list[str]:
    return re.findall(r'<div class="notice [^"]*" role="status">.*?</div></div>', page.text, re.DOTALL)


def test_thresholds_that_can_never_be_met_are_warned_of_on_the_page(web: Within) -> None:
    joint, user = container_of(web).joint, container_of(web).settings.local_user
    parameters = [{"key": "threshold_box", "value": "0.1"}, {"key": "empty_is_hard", "value": "false"}]
    resource = helmet()
    resource["spec"]["edgeWorker"]["workerSpec"]["parameters"] = parameters
    uid = joint.services.create(user, resource, now=now()).uid
    joint.controller.reconcile(uid, now=now())
    (_, warning) = notices(web.get("/ui/services/default/helmet"))
    assert "With these thresholds no sample can be hard" in warning
    assert "threshold_box is 0.1" in warning
    parameters[0]["value"] = "0.9"
    joint.services.apply(user, resource, now=now())
    joint.controller.reconcile(uid, now=now())
    assert len(notices(web.get("/ui/services/default/helmet"))) == 1
