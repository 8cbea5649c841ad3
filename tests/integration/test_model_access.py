"""A model that its owner shares, on every route: those who may use it run it, to others it is as if it did not exist,
and services go on with what they have when the owner changes their mind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.inference.prediction import Decoder
from app.joint_inference.model.resource import PLURAL
from app.main import create_app
from app.model_registry.model import NewVersion
from app.settings import Settings
from app.video.errors import BadStage
from app.video.model.kinds import StageSpec
from tests.harness.api import classifying_model, small_model
from tests.harness.joint.nodes import Env, helmet
from tests.harness.kubernetes import APPLY, JSON_PATCH, MERGE, refusal
from tests.harness.users import OURS, Within

MODELS, SERVICES, SERVICE = "/api/v2/models", "/api/v2/services", "/api/v2/services/default/helmet"
SEDNA = "sedna.io/v1alpha1"
KUBERNETES, TABLE = f"/apis/{SEDNA}/models", "application/json;as=Table;v=v1;g=meta.k8s.io"
REFERENCE = "alice/big-model@stable"
BIG = {"name": "big-model"}


@dataclass(frozen=True)
class House:
    """bob has a service whose cloud worker runs what alice's big-model@stable refers to, if he may use it."""

    env: Env
    alice: Within
    bob: Within
    mallory: Within
    boss: Within

    @property
    def container(self) -> Container:
        return self.env.container

    def share(self, *names: str) -> None:
        answer = self.alice.request("PUT", f"{MODELS}/access", params=BIG, json={"allowed": list(names)})
        assert (answer.status_code, answer.json()) == (200, {"allowed": list(names)}), answer.text

    def run(self, who: Within | None = None, reference: str = REFERENCE) -> tuple[str, str, str]:
        """Type, reason and message of the condition of a new service."""
        resource = helmet()
        resource["spec"]["cloudWorker"]["model"]["name"] = reference
        answer = (who or self.bob).post(SERVICES, json=resource)
        assert answer.status_code == 201, answer.text
        return self.settled(who)

    def settled(self, who: Within | None = None) -> tuple[str, str, str]:
        self.env.settle()
        (condition, *_) = (who or self.bob).get(SERVICE).json()["resource"]["status"]["conditions"][-1:]
        return condition["type"], condition["reason"], condition["message"]

    def models_ordered(self) -> set[str]:
        (service,) = self.container.joint.services.all("bob")[0]
        with self.container.database.read() as conn:
            orders = self.container.nodes.orders_of(conn, PLURAL, service.uid)
        return {order.content["model"]["name"] for order in orders}

    def model_of_cloud(self) -> dict[str, Any]:
        (cloud,) = (each for each in self.bob.get(SERVICE).json()["workers"] if each["role"] == "cloud")
        return dict(cloud["wanted"])


@pytest.fixture
def house(settings: Settings) -> Iterator[House]:
    app = create_app(settings.model_copy(update={"accounts": True}))
    container: Container = app.state.container
    env = Env(container, "bob")
    people = {}
    for name, role in (("bob", None), ("alice", Role.USER), ("mallory", Role.USER), ("boss", Role.ADMIN)):
        if role is not None:
            container.accounts.users.create(name, role, by="test")
        token = container.accounts.tokens.issue(name, by="test")[1]
        people[name] = Within(app, Authorization=f"Bearer {token}", **OURS)
    for _ in range(2):
        container.models.add_upload(
            "alice", "big-model", [small_model()], now=env.now, versioning=NewVersion(is_next=True)
        )
    container.models.set_tag("alice", "big-model", "stable", 1, now=env.now)
    yield House(env, **people)
    container.close()


def test_a_service_runs_a_model_that_is_shared_and_follows_its_tag(house: House) -> None:
    house.share("bob")
    assert house.run()[1] == "Serving"
    assert house.model_of_cloud()["version"] == 1
    assert house.alice.request("PUT", f"{MODELS}/tags/stable", params=BIG, json={"version": 2}).status_code == 200
    assert house.settled()[1] == "Serving"
    assert (house.model_of_cloud()["model"], house.model_of_cloud()["version"]) == (REFERENCE, 2)
    (listed,) = house.bob.get(f"{MODELS}/shared").json()["models"]
    assert (listed["name"], listed["version"], listed["tags"]) == ("alice/big-model", 2, ["stable"])
    for path in (f"{MODELS}/named", f"{MODELS}/file", f"{MODELS}/versions", f"{MODELS}/access", "/ui/models/named"):
        for name in ("alice/big-model", REFERENCE):
            assert house.bob.get(path, params={"name": name}).status_code == 404, "to use is not to read"


def test_kubectl_is_shown_a_shared_model_without_its_file_and_with_a_name_that_has_no_slash(house: House) -> None:
    house.share("bob")
    house.container.models.add_upload("bob", "a~1%:b", [small_model()], now=house.env.now)
    listed = house.bob.get(KUBERNETES).json()
    assert (listed["kind"], listed["apiVersion"]) == ("ModelList", "sedna.io/v1alpha1")
    names = [one["metadata"]["name"] for one in listed["items"]]
    assert names == sorted(names)
    shared, own = (listed["items"][names.index(name)] for name in ("alice~1big-model", "a~01%:b"))
    assert (shared["spec"], shared["status"]["name"], shared["status"]["version"]) == ({}, "alice/big-model", 2)
    assert shared["status"]["tags"] == ["stable"] and "sha256" not in str(shared)
    assert own["spec"] == {"url": "/api/v2/models/file?name=a~1%25%3Ab", "format": "onnx"}
    assert house.bob.get(own["spec"]["url"]).status_code == 200
    assert house.bob.get(f"{KUBERNETES}/alice~1big-model").json() == shared
    table = house.bob.get(f"{KUBERNETES}/a~01%25:b", headers={"Accept": TABLE}).json()
    (row,) = table["rows"]
    assert (table["kind"], row["cells"][:3]) == ("Table", ["a~01%:b", 1, "onnx"])
    chosen = house.bob.get(KUBERNETES, params={"fieldSelector": "metadata.name=alice~1big-model"})
    assert chosen.json()["items"] == [shared]
    assert house.bob.get(KUBERNETES, params={"labelSelector": "app=door"}).json()["items"] == []
    assert house.mallory.get(KUBERNETES).json()["items"] == []
    refused = refusal(house.mallory.get(f"{KUBERNETES}/alice~1big-model"), 404, "NotFound")
    assert refused["message"] == 'models.sedna.io "alice~1big-model" not found'
    assert (
        "listed, not watched" in refusal(house.bob.get(KUBERNETES, params={"watch": "1"}), 400, "BadRequest")["message"]
    )


def test_kubectl_applies_a_shared_model_by_its_name_and_refuses_anothers_like_one_that_does_not_exist(
    house: House,
) -> None:
    def resource(name: str, **metadata: Any) -> dict[str, Any]:
        metadata = {"name": name, **metadata}
        return {"apiVersion": SEDNA, "kind": "Model", "metadata": metadata, "spec": {"url": "m.onnx", "devices": 1}}

    house.share("bob")
    path, name = f"{KUBERNETES}/alice~1big-model", "alice~1big-model"
    shared = house.bob.get(path).json()
    unused = f"The file of the model {name} is fetched by `modelmill joint apply`, not by kubectl"
    used = [
        '299 - "spec.devices has no effect here"',
        f'299 - "{unused}; the registered version 2 is used"',
    ]
    for answer in (
        house.bob.request("PUT", path, json=resource(name)),
        house.bob.request("PATCH", path, json={"spec": {"url": "m.onnx", "devices": 1}}, headers=MERGE),
        house.bob.request("PATCH", path, json=resource(name), headers=APPLY),
    ):
        assert (answer.status_code, answer.json()) == (200, shared)
        assert answer.headers.get_list("warning") == used
    told = house.bob.request("PUT", path, json=resource(name, labels=1, annotations={"a": "b"}))
    assert [text for text in told.headers.get_list("warning") if text not in used] == [
        f'299 - "metadata.{field} has no effect here"' for field in ("labels", "annotations")
    ]
    for client, model in ((house.mallory, name), (house.bob, "none")):
        place = f"{KUBERNETES}/{model}"
        for refused in (
            client.post(KUBERNETES, json=resource(model)),
            client.request("PATCH", place, json=resource(model), headers=APPLY),
        ):
            message = refusal(refused, 422, "Invalid")["message"]
            assert message.startswith(f'Model.sedna.io "{model}" is invalid: spec.url: The file of the model {model}')
        refusal(client.request("PUT", place, json=resource(model)), 404, "NotFound")
        refusal(client.request("PATCH", place, json={}, headers=MERGE), 404, "NotFound")
    exists = refusal(house.bob.post(KUBERNETES, json=resource(name)), 409, "AlreadyExists")
    assert (exists["message"], exists["details"]["kind"]) == (f'models.sedna.io "{name}" already exists', "models")
    refusal(house.bob.request("PATCH", path, json=[], headers=JSON_PATCH), 415, "UnsupportedMediaType")
    refusal(house.bob.request("PUT", path, json=resource("other")), 400, "BadRequest")
    for wrong in ([], {**resource(name), "kind": "Dataset"}):
        refusal(house.bob.post(KUBERNETES, json=wrong), 400, "BadRequest")


def test_a_pair_of_different_tasks_is_refused_also_with_a_shared_model_and_says_nothing_of_one_that_is_not(
    house: House,
) -> None:
    models = house.container.models
    for owner, name, classes in (("alice", "five", 5), ("bob", "three", 3)):
        content = [classifying_model(classes)]
        models.add_upload(owner, name, content, now=house.env.now, decoder=Decoder.CLASSIFIER)
    pair = helmet()
    for side, name in (("edgeWorker", "three"), ("cloudWorker", "alice/five")):
        pair["spec"][side]["model"]["name"] = name
    pair["spec"]["edgeWorker"]["hardExampleAlgorithm"]["name"] = "CrossEntropy"
    params = {"name": "five"}
    house.alice.request("PUT", f"{MODELS}/access", params=params, json={"allowed": ["bob"]})
    refused = house.bob.post(SERVICES, json=pair)
    assert refused.status_code == 422 and "'alice/five' tells 5 classes apart" in refused.text, refused.text
    house.share("bob")
    assert house.run()[1] == "Serving"
    assert house.bob.request("PUT", SERVICE, json=pair).status_code == 422
    house.alice.request("PUT", f"{MODELS}/access", params=params, json={"allowed": []})
    assert house.bob.request("PUT", SERVICE, json=pair).status_code == 200, "as a name that is not known"


def test_to_others_it_is_as_if_it_did_not_exist(house: House) -> None:
    house.share("bob")
    for who in (house.mallory, house.boss):
        assert who.get(f"{MODELS}/shared").json() == {"models": []}
        for path in ("/ui/models", "/ui/services/new", "/ui/video/stages"):
            assert "alice/" not in who.get(path).text, path
    assert "alice/big-model@stable" in house.bob.get("/ui/services/new").text
    assert "alice/big-model" in house.bob.get("/ui/models").text
    house.share()
    unknown = house.run(reference="alice/big-mode1@stable")
    assert house.bob.request("DELETE", SERVICE).status_code == 202
    house.env.settle()
    refused = house.run()
    assert refused == (unknown[0], unknown[1], unknown[2].replace("big-mode1", "big-model"))
    assert refused[:2] == ("Failed", "ModelNotFound")
    stage = StageSpec("mine", "classification", (("alice/big-model",),), {})
    with pytest.raises(BadStage, match=r"needs a model 'alice/big-model', which there is not"):
        house.container.video.catalogue.put("mallory", stage, now=house.env.now)


def test_without_access_a_service_goes_on_with_what_it_has_and_says_so(house: House) -> None:
    house.share("bob")
    house.run()
    house.share("@lab")
    state, reason, message = house.settled()
    assert (state, reason) == ("Running", "Degraded")
    assert "'alice/big-model@stable' of the cloud worker is no longer there for you" in message
    house.alice.request("PUT", f"{MODELS}/tags/stable", params=BIG, json={"version": 2})
    assert house.settled()[1] == "Degraded"
    assert house.models_ordered() == {"small-model", "alice/big-model"}
    house.container.accounts.users.change("bob", by="test", groups=["lab"])
    assert house.settled()[1] == "Serving"
    assert house.model_of_cloud()["version"] == 2
    house.share()
    resource = house.bob.get(SERVICE).json()["resource"]
    resource["spec"]["cloudWorker"]["name"] = "another"
    changed = house.bob.request("PUT", SERVICE, json=resource)
    assert changed.status_code == 200, changed.text
    assert house.settled()[:2] == ("Failed", "ModelNotFound"), "what is new needs the access"


def test_what_others_use_cannot_be_removed_and_the_refusal_does_not_say_whose_it_is(house: House) -> None:
    house.share("bob")
    house.run()
    for path, params in ((f"{MODELS}/named", BIG), (f"{MODELS}/tags/stable", BIG)):
        refused = house.alice.request("DELETE", path, params=params)
        assert refused.status_code == 409
        assert refused.json()["error"]["detail"] == {"used_by": ["a service of another user"]}
        assert "bob" not in refused.text and "helmet" not in refused.text
    house.container.accounts.users.change("alice", by="test", role=Role.ADMIN)
    refused = house.alice.request("DELETE", f"{MODELS}/named", params=BIG)
    assert refused.json()["error"]["detail"] == {"used_by": ["service default/helmet of bob"]}
    house.container.accounts.users.change("alice", by="test", role=Role.USER)
    house.share()
    house.settled()
    assert house.alice.request("DELETE", f"{MODELS}/named", params=BIG).status_code == 204


def test_a_stage_of_the_catalog_follows_a_shared_model_and_holds_it(house: House) -> None:
    house.share("boss")
    catalogue, models = house.container.video.catalogue, house.container.models
    catalogue.put("boss", StageSpec("digits", "classification", ((REFERENCE,),), {}), now=house.env.now)

    def pinned() -> str:
        (stage,) = (listed.stage for listed in catalogue.all() if listed.spec.name == "digits")
        return stage.variants[0][0].name

    assert pinned() == "alice/big-model"
    models.set_tag("alice", "big-model", "stable", 2, now=house.env.now)
    assert pinned() == "alice/big-model@2"
    house.share()
    models.set_tag("alice", "big-model", "stable", 1, now=house.env.now)
    assert pinned() == "alice/big-model@2", "without access it keeps what it has"
    refused = house.alice.request("DELETE", f"{MODELS}/named", params=BIG)
    assert refused.json()["error"]["detail"] == {"used_by": ["a stage of another user"]}


def test_the_page_of_a_model_takes_who_may_use_it(house: House) -> None:
    page = house.alice.get("/ui/models/named", params=BIG).text
    assert 'name="allowed" value=""' in page and "alice/big-model" in page
    sent = house.alice.post("/ui/models/access", data={"name": "big-model", "allowed": "bob, @lab"})
    assert sent.status_code == 303
    assert 'name="allowed" value="@lab bob"' in house.alice.get("/ui/models/named", params=BIG).text
    assert house.alice.post("/ui/models/access", data={"name": "big-model", "allowed": "No!"}).status_code == 422
    assert house.bob.post("/ui/models/access", data={"name": "alice/big-model", "allowed": "*"}).status_code == 404
    wrong = house.alice.request("PUT", f"{MODELS}/access", params=BIG, json={"allowed": ["No Name"]})
    assert wrong.status_code == 422
    assert house.alice.get(f"{MODELS}/access", params=BIG).json() == {"allowed": ["@lab", "bob"]}
