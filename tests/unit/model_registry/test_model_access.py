"""Models for others: who may use one, what owner/name refers to, and what is told of its uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.inference.model_card import Format, version_on
from app.kit.access import EVERYBODY, AccessRule, Member
from app.model_registry.errors import ModelInUse, ModelNotFound
from app.model_registry.model import ModelUse, Usage, follows, split_shared
from app.model_registry.service import Models, NewVersion
from tests.harness.conversion_jobs import finished_job
from tests.unit.model_registry.test_service import NOW

LAB = AccessRule(("@lab", "bob"))
NEXT = NewVersion(is_next=True)


@pytest.fixture
def models(container: Container) -> Iterator[Models]:
    """alice has the model m in two versions, of which stable is the first; carol is in the group lab."""
    container.prepare()
    users = container.accounts.users
    for name, role in (("bob", Role.USER), ("carol", Role.USER), ("mallory", Role.USER), ("boss", Role.ADMIN)):
        users.create(name, role, by="test")
    users.change("carol", by="test", groups=["lab"])
    registry = container.models
    for versioning in (NewVersion(), NEXT):
        job = finished_job(container, "alice").job_id
        registry.add_from_job("alice", "m", job, Format.ONNX, now=NOW, versioning=versioning)
    registry.set_tag("alice", "m", "stable", 1, now=NOW)
    yield registry


def card_found(models: Models, user: str, name: str = "alice/m") -> str | None:
    model = models.find(user, name, now=NOW)
    return model.card.name if model is not None else None


@pytest.mark.slow
def test_a_model_is_its_owners_until_the_owner_shares_it(models: Models) -> None:
    everyone = ("alice", "bob", "carol", "mallory", "boss", "nobody")

    def admitted() -> list[str]:
        return [user for user in everyone if card_found(models, user) is not None]

    assert models.access.rule("alice", "m") == AccessRule(())
    assert admitted() == ["alice"], "nor is it an administrator's"
    models.access.permit("alice", "m", LAB)
    assert admitted() == ["alice", "bob", "carol"]
    models.access.permit("alice", "m", EVERYBODY)
    assert admitted() == list(everyone)
    models.access.permit("alice", "m", AccessRule(()))
    assert admitted() == ["alice"]


@pytest.mark.slow
def test_a_reference_names_versions_and_tags_and_the_card_says_so(models: Models) -> None:
    models.access.permit("alice", "m", LAB)
    names = (
        "alice/m",
        "alice/m@1",
        "alice/m@2",
        "alice/m@stable",
        "alice/m@3",
        "alice/other",
        "m",
        "bob/m",
        "/m",
        "alice/",
    )
    cards = ["alice/m@2", "alice/m", "alice/m@2", "alice/m", *[None] * 6]
    assert [card_found(models, "bob", name) for name in names] == cards
    assert version_on("alice/m@2") == ("alice/m", 2)
    for name in ("\0/m", "alice/\0", "alice/m/out.nef", "alice/" + "x" * 300, "x" * 300 + "/m"):
        assert card_found(models, "bob", name) is None, name


@pytest.mark.slow
def test_ones_own_jobs_and_models_come_first(models: Models, container: Container) -> None:
    models.access.permit("alice", "m", LAB)
    own = finished_job(container, "bob", name="alice/m", mark="own")
    model = models.find("bob", "alice/m", now=NOW)
    assert model is not None and (model.owner, model.job_id) == ("bob", own.job_id)


@pytest.mark.slow
def test_sharing_gives_no_other_verb(models: Models, container: Container) -> None:
    models.access.permit("alice", "m", EVERYBODY)
    for name in ("alice/m", "m"):
        for verb in (models.get, models.versions, models.remove):
            with pytest.raises(ModelNotFound):
                verb("bob", name)
        with pytest.raises(ModelNotFound):
            models.set_tag("bob", name, "stable", 2, now=NOW)
        with pytest.raises(ModelNotFound):
            models.access.permit("bob", name, EVERYBODY)
        with pytest.raises(ModelNotFound):
            models.access.rule("bob", name)
    assert models.page("bob") == ([], None)
    (entry,) = container.accounts.audit_log.entries(subject="model:alice/m")
    assert (entry.actor, entry.action, entry.detail) == ("alice", "model.access", {"allowed": None})


@pytest.mark.slow
def test_others_see_its_names_alone_and_a_new_model_of_the_name_is_not_shared(models: Models) -> None:
    assert models.access.seen_by("bob") == []
    models.access.permit("alice", "m", LAB)
    (shared,) = models.access.seen_by("bob")
    assert (shared.owner, shared.name, shared.version, shared.tags) == ("alice", "alice/m", 2, ("stable",))
    assert models.suggestions("bob", most=9) == ["alice/m", "alice/m@stable"]
    assert models.access.seen_by("alice") == models.access.seen_by("mallory") == models.access.seen_by("boss") == []
    models.remove("alice", "m")
    with pytest.raises(ModelNotFound):
        models.access.rule("alice", "m")


def test_the_uses_of_others_have_no_names_unless_an_administrator_looks() -> None:
    uses = Usage("service", "default/faces", "bob"), Usage("calibration", "default/faces", "bob")
    assert [use.words(Member("bob")) for use in uses] == ["service default/faces", "calibration of default/faces"]
    assert [use.words(Member("alice", ["lab"])) for use in uses] == [
        "a service of another user",
        "a calibration of another user",
    ]
    assert [use.words(Member("boss", is_admin=True)) for use in uses] == [
        "service default/faces of bob",
        "calibration of default/faces of bob",
    ]


@pytest.mark.slow
def test_only_names_of_users_who_may_use_it_hold_a_model(models: Models) -> None:
    """Else anybody could keep a model from being removed, and learn that it is there."""
    models.access.permit("alice", "m", LAB)
    held: list[tuple[str, str]] = []
    models.users_of = lambda use: [Usage("service", "x", user) for user, name in held if use.has(user, name)]
    for user, name in (("mallory", "alice/m"), ("boss", "alice/m@stable"), ("bob", "m"), ("bob", "carol/m")):
        held[:] = [(user, name)]
        models._refuse_used("alice", "m", frozenset({"m", "m@1", "m@stable"}), "m")
    for user, name in (("bob", "alice/m"), ("carol", "alice/m@stable")):
        held[:] = [(user, name)] * 2
        with pytest.raises(ModelInUse) as caught:
            models.remove("alice", "m")
        assert caught.value.detail == {"used_by": ["a service of another user"]}
        assert user not in f"{caught.value.message} {caught.value.hint}"
    held[:] = [("bob", "alice/m@stable")]
    with pytest.raises(ModelInUse):
        models.remove_tag("alice", "m", "stable")
    models.access.permit("alice", "m", AccessRule(()))
    models.remove("alice", "m")


def test_a_change_of_access_is_heard_once(container: Container) -> None:
    changed: list[tuple[str, str]] = []
    models = Models(
        container.database, container.objects, container.conversion, on_change=lambda *of: changed.append(of)
    )
    models.add_from_job("alice", "m", finished_job(container, "alice").job_id, Format.ONNX, now=NOW)
    for _ in range(2):
        models.access.permit("alice", "m", LAB)
    assert changed == [("alice", "m")]


def test_what_a_name_follows_depends_on_who_writes_it() -> None:
    for name in ("m", "m@1", "m@stable", "alice/m", "alice/m@stable"):
        assert follows(name, "alice", "m", by="alice")
        assert follows(name, "alice", "m", by="bob") is name.startswith("alice/")
        assert not follows(name, "carol", "m", by="bob")
    assert split_shared("m") == ("", "") and split_shared("alice/f/out.nef") == ("alice", "f/out.nef")
    use = ModelUse("alice", frozenset({"m"}))
    assert not use.has("bob", "alice/m") and use.has("alice", "alice/m")
