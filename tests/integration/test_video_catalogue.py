"""The catalogue of stages: what may stand in it, and what uses it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.kit.access import AccessRule
from app.model_registry.errors import ModelInUse
from app.model_registry.model import NewVersion
from app.video.errors import BadDag, BadStage, StageInUse, StageNotFound
from app.video.model.dag import read_dag
from app.video.model.kinds import StageSpec
from tests.harness.api import classifying_model, vector_model
from tests.harness.video.nodes import USER, Env
from tests.harness.video.records import MODELS, dag

SPEC = StageSpec("faces", "face_detection", (("face_rfb_640",), ("face_slim_320",)))


@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)


def names(env: Env) -> list[str]:
    return [listed.spec.name for listed in env.video.catalogue.all()]


def test_a_stage_is_added_with_its_models_pinned_and_replaced(env: Env, container: Container) -> None:
    catalogue = env.video.catalogue
    env.woken.clear()
    stage = catalogue.put(USER, SPEC, now=env.now)
    assert [[card.name for card in cards] for cards in stage.variants] == [["face_rfb_640"], ["face_slim_320"]]
    assert names(env) == ["face_alignment", "face_detection", "faces"]
    assert {listed.spec.name: listed.stage for listed in catalogue.all()}["faces"] == stage
    assert env.woken == [""], "nodes are to serve it at once"
    catalogue.put(USER, replace(SPEC, models=(("face_slim_320",),)), now=env.now)
    assert len({listed.spec.name: listed.stage for listed in catalogue.all()}["faces"].variants) == 1


@pytest.mark.parametrize(
    ("kind", "named", "message"),
    [
        ("classification", "classifier", ""),
        ("detection", "auto", ""),
        ("detection", "yolox", r"'yolox' cannot read the model 'digits': .*\[1, 3\].*Choose another model\."),
        ("detection", "classifier", "which the kind detection cannot use"),
        ("face_detection", "classifier", "which the kind face_detection cannot use"),
        ("classification", "yolox", "which the kind classification cannot use"),
        ("text_recognition", "yolov8", "which the kind text_recognition cannot use"),
        ("detection", "no decoder!", "which there is not"),
    ],
)
def test_a_stage_names_a_decoder_that_reads_its_model(
    env: Env, container: Container, kind: str, named: str, message: str
) -> None:
    container.models.add_upload(USER, "digits", [classifying_model()], now=env.now)
    spec = StageSpec("s", kind, (("digits",),), {"decoder": named})
    with pytest.raises(BadStage, match=message) if message else nullcontext():
        env.video.catalogue.put(USER, spec, now=env.now)
    own = {"face_detection": {"kind": kind, "models": ["digits"], "parameters": {"decoder": named}}}
    if message:
        with pytest.raises(BadStage, match=message):
            env.submit(dag={**dag(), "stages": own})


def test_a_model_of_a_job_that_goes_on_is_not_removed(env: Env, container: Container) -> None:
    container.models.add_upload(USER, "mine", [vector_model()], now=env.now)
    own = {"face_detection": {"kind": "face_detection", "models": ["mine"]}}
    job = env.submit(dag={**dag(), "stages": own})
    with pytest.raises(ModelInUse, match=f"video job {job.uid}"):
        container.models.remove(USER, "mine")
    env.video.jobs.cancel(USER, job.uid, now=env.now)
    container.models.remove(USER, "mine")


def test_a_model_of_a_stage_of_the_catalogue_is_not_removed(env: Env, container: Container) -> None:
    catalogue = env.video.catalogue
    container.models.add_upload(USER, "mine", [vector_model()], now=env.now)
    catalogue.put(USER, replace(SPEC, models=(("face_rfb_640",), ("mine",))), now=env.now)
    with pytest.raises(ModelInUse, match="stage faces") as raised:
        container.models.remove(USER, "mine")
    assert raised.value.detail == {"used_by": ["stage faces"]}
    container.accounts.users.create("mallory", Role.USER, by="test")
    container.models.add_upload("mallory", "theirs", [vector_model()], now=env.now)
    container.models.remove("mallory", "theirs")
    catalogue.put(USER, SPEC, now=env.now)
    container.models.remove(USER, "mine")


def test_a_stage_follows_a_tag_and_the_newest_version_and_keeps_what_it_names(env: Env, container: Container) -> None:
    models, catalogue = container.models, env.video.catalogue
    for outputs in (1, 2, 3):
        models.add_upload(USER, "mine", [vector_model(outputs)], now=env.now, versioning=NewVersion(is_next=True))
    models.set_tag(USER, "mine", "stable", 1, now=env.now)
    spec = replace(SPEC, models=(("mine",), ("mine@stable",), ("mine@2",)))

    def pinned() -> list[str]:
        (faces,) = (listed.stage for listed in catalogue.all() if listed.spec.name == "faces")
        return [cards[0].name for cards in faces.variants]

    catalogue.put(USER, spec, now=env.now)
    assert pinned() == ["mine@3", "mine", "mine@2"]
    models.set_tag(USER, "mine", "stable", 2, now=env.now)
    assert pinned() == ["mine@3", "mine@2", "mine@2"]
    models.add_upload(USER, "mine", [vector_model(4)], now=env.now, versioning=NewVersion(is_next=True))
    assert pinned() == ["mine@4", "mine@2", "mine@2"]
    for name in ("mine@4", "mine@2"):
        with pytest.raises(ModelInUse):
            models.remove(USER, name)
    with pytest.raises(ModelInUse, match="stage faces"):
        models.remove_tag(USER, "mine", "stable")
    models.remove(USER, "mine@1")


def test_a_stage_that_cannot_switch_to_a_version_keeps_the_one_before_and_the_reason_is_stored(
    env: Env, container: Container
) -> None:
    models, catalogue = container.models, env.video.catalogue

    def listed() -> tuple[list[str], str]:
        (stage,) = (each for each in catalogue.all() if each.spec.name == "s")
        return [cards[0].name for cards in stage.stage.variants], stage.problem

    def add(content: bytes) -> None:
        models.add_upload(USER, "digits", [content], now=env.now, versioning=NewVersion(is_next=True))

    add(classifying_model())
    spec = StageSpec("s", "classification", (("digits",),), {"decoder": "classifier"})
    catalogue.put(USER, spec, now=env.now)
    add(classifying_model(1))
    pinned, problem = listed()
    assert pinned == ["digits"]
    assert "The decoder 'classifier' cannot read the model 'digits': its outputs are y [1, 1]" in problem
    add(classifying_model(4))
    assert listed() == (["digits@3"], "")


@pytest.mark.parametrize("is_removed", [True, False])
def test_what_becomes_of_a_stage_while_its_models_are_looked_up_stays(
    env: Env, container: Container, monkeypatch: pytest.MonkeyPatch, is_removed: bool
) -> None:
    catalogue, find = env.video.catalogue, container.models.find
    catalogue.put(USER, SPEC, now=env.now)
    edited = replace(SPEC, models=(("face_slim_320",),))

    def change(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(container.models, "find", find)
        if is_removed:
            catalogue.remove("faces")
        else:
            catalogue.put(USER, edited, now=env.now)
        return find(*args, **kwargs)

    monkeypatch.setattr(container.models, "find", change)
    catalogue.model_changed(USER, "face_rfb_640", now=env.now)
    assert [listed.spec for listed in catalogue.all() if listed.spec.name == "faces"] == [edited] * (not is_removed)


def test_a_stage_whose_users_change_while_its_models_are_looked_up_gets_them(
    env: Env, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, catalogue, find = container.models, env.video.catalogue, container.models.find
    catalogue.put(USER, SPEC, now=env.now)
    allowed = AccessRule(("bob",))

    def permit(*args: Any, **kwargs: Any) -> Any:
        catalogue.permit("faces", allowed, by=USER)
        return find(*args, **kwargs)

    monkeypatch.setattr(models, "find", permit)
    models.add_upload(USER, "face_slim_320", [vector_model()], now=env.now, versioning=NewVersion(is_next=True))
    (listed,) = (each for each in catalogue.all() if each.spec.name == "faces")
    assert (listed.allowed, listed.stage.variants[1][0].name) == (allowed, "face_slim_320@2")


NO_STAGES = (
    (replace(SPEC, name="a b"), "a b"),
    (replace(SPEC, name="Render"), "Render"),
    (replace(SPEC, name="SingleFrameGenerator"), "SingleFrameGenerator"),
    (replace(SPEC, name=""), "name"),
    (replace(SPEC, kind="os.system"), "os.system"),
    (replace(SPEC, models=()), "0 models"),
    (replace(SPEC, models=(("face_rfb_640",),) * 4), "4 models"),
    (replace(SPEC, models=((),)), "0 files"),
    (replace(SPEC, models=(("face_rfb_640",) * 9,)), "9 files"),
    (replace(SPEC, models=(("nowhere",),)), "nowhere"),
    (replace(SPEC, parameters={"colour": "red"}), "colour"),
)


def test_what_is_no_stage_is_refused(env: Env) -> None:
    for spec, message in NO_STAGES:
        with pytest.raises(BadStage, match=message):
            env.video.catalogue.put(USER, spec, now=env.now)
        assert names(env) == ["face_alignment", "face_detection"], spec


def test_a_missing_model_is_named_and_where_to_add_it(env: Env) -> None:
    with pytest.raises(BadStage) as raised:
        env.video.catalogue.put(USER, replace(SPEC, models=(("nowhere",),)), now=env.now)
    assert "'nowhere'" in raised.value.message
    assert "Models" in raised.value.hint


def test_anothers_model_is_none(env: Env, container: Container) -> None:
    container.accounts.users.create("mallory", Role.USER, by="test")
    with pytest.raises(BadStage, match="face_rfb_640"):
        env.video.catalogue.put("mallory", SPEC, now=env.now)


def test_a_stage_that_a_job_names_stays(env: Env) -> None:
    catalogue, job = env.video.catalogue, env.submit()
    with pytest.raises(StageInUse, match=job.uid):
        catalogue.remove("face_detection")
    with pytest.raises(StageNotFound):
        catalogue.remove("nose")
    env.jobs.cancel(USER, job.uid, now=env.now)
    env.woken.clear()
    catalogue.remove("face_detection")
    assert names(env) == ["face_alignment"]
    assert env.woken == [""]
    with pytest.raises(BadDag) as raised:
        env.submit()
    assert "face_detection" in raised.value.message
    assert "face_alignment" in raised.value.hint


def test_a_job_has_its_own_stages_first_and_the_others_of_the_catalogue(env: Env, container: Container) -> None:
    container.models.add_upload(USER, "mine", [vector_model()], now=env.now)
    own: dict[str, Any] = {"face_detection": {"kind": "face_detection", "models": ["mine", "face_slim_320"]}}
    stages = env.video.catalogue.resolve(USER, read_dag({**dag(), "stages": own}), now=env.now)
    assert [stage.name for stage in stages] == ["face_detection", "face_alignment"]
    assert [cards[0].name for cards in stages[0].variants] == ["mine", "face_slim_320"]
    assert [cards[0].name for cards in stages[1].variants] == [models[0] for models in MODELS["face_alignment"]]


def test_kinds_are_those_of_the_product(env: Env) -> None:
    kinds = env.video.catalogue.kinds()
    assert {"face_detection", "face_alignment"} <= set(kinds)
    assert all(kind.name == name for name, kind in kinds.items())
