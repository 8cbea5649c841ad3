"""Versions of a model and its tags: what each name means, what hears of a change, and what cannot be removed."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.bootstrap.container import Container
from app.inference.model_card import Format, version_on
from app.model_registry.errors import BadModelName, BadTag, ModelInUse, ModelNotFound, TagNotFound
from app.model_registry.model import ModelUse, NewVersion, Usage
from app.model_registry.schemas import ModelUpload
from app.model_registry.service import Model, Models
from tests.harness.conversion_jobs import finished_job
from tests.unit.model_registry.test_service import NOW, blobs

NEXT = NewVersion(is_next=True)


class Registry:
    """m has three versions; remembers of what it was told, and of what it was asked."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.changed: list[tuple[str, str]] = []
        self.uses: list[ModelUse] = []
        self.users: tuple[Usage, ...] = ()
        parts = container.database, container.objects, container.conversion
        self.models = Models(*parts, self._users_of, lambda *changed: self.changed.append(changed))
        self.versions = [self.add(), self.add(NEXT), self.add(NewVersion(True, "with the new data"))]

    def add(self, versioning: NewVersion = NEXT, name: str = "m") -> Model:
        record = finished_job(self.container, "alice")
        if not versioning.is_next:
            return self.models.add_from_job("alice", name, record.job_id, Format.ONNX, now=NOW)
        return self.models.add_from_job("alice", name, record.job_id, Format.ONNX, now=NOW, versioning=versioning)

    def tag(self, tag: str, version: int) -> None:
        self.models.set_tag("alice", "m", tag, version, now=NOW)

    def meant(self, name: str) -> int | None:
        model = self.models.find("alice", name, now=NOW)
        return model.version if model else None

    def _users_of(self, use: ModelUse) -> tuple[Usage, ...]:
        self.uses.append(use)
        return self.users


@pytest.fixture
def registry(container: Container) -> Registry:
    return Registry(container)


def test_the_plain_name_means_the_newest_and_a_pin_its_own(registry: Registry) -> None:
    assert [registry.meant(name) for name in ("m", "m@1", "m@2", "m@3", "m@4", "m@stable")] == [3, 1, 2, 3, None, None]
    assert [model.card.name for model in registry.versions] == ["m", "m@2", "m@3"]
    assert [version_on(model.card.name) for model in registry.versions] == [("m", 1), ("m", 2), ("m", 3)]
    assert {(model.name, model.note) for model in registry.versions} == {("m", ""), ("m", "with the new data")}
    assert [model.version for model in registry.models.page("alice")[0]] == [3]
    assert registry.models.versions("alice", "m@1") == (registry.versions[::-1], {})


def test_a_version_says_what_its_conversion_measured(registry: Registry) -> None:
    record = finished_job(registry.container, "alice")
    version = registry.models.get("alice", "m")
    assert version.metrics.get("snr_db") == record.snr_db
    assert version.metrics.get("verdict") == (record.verdict.value if record.verdict else None)


def test_a_tag_follows_what_its_owner_sets_and_others_hear_of_it(registry: Registry) -> None:
    assert registry.changed == [("alice", "m")] * 2
    registry.tag("stable", 1)
    registry.tag("canary", 3)
    assert (registry.meant("m@stable"), registry.meant("m@canary")) == (1, 3)
    registry.tag("stable", 2)
    assert registry.meant("m@stable") == 2
    assert registry.models.versions("alice", "m")[1] == {"canary": 3, "stable": 2}
    assert registry.changed == [("alice", "m")] * 5
    assert registry.models.find("bob", "m@stable", now=NOW) is None


def test_forms_offer_names_and_tags(registry: Registry) -> None:
    registry.tag("stable", 1)
    registry.tag("canary", 3)
    registry.add(NEXT, "other")
    assert sorted(registry.models.suggestions("alice", most=9)) == ["m", "m@canary", "m@stable", "other"]
    assert registry.models.suggestions("bob", most=9) == []


def test_what_cannot_be_a_tag_is_refused(registry: Registry) -> None:
    for tag in ("", "3", "Stable", "a b", "a@b", "x" * 33):
        with pytest.raises(BadTag):
            registry.tag(tag, 1)
    for name, version in (("m", 4), ("m", 0), ("other", 1), ("m@1", 1)):
        with pytest.raises(ModelNotFound):
            registry.models.set_tag("alice", name, "stable", version, now=NOW)
    with pytest.raises(TagNotFound):
        registry.models.remove_tag("alice", "m", "stable")


def test_a_name_with_a_version_cannot_be_chosen(registry: Registry) -> None:
    for versioning in (NewVersion(), NEXT):
        for name in ("m@1", "m@9", "new@stable"):
            with pytest.raises(BadModelName):
                registry.add(versioning, name)
    assert registry.add(NEXT, "new").version == 1


def test_a_tag_keeps_its_version_and_what_follows_it_keeps_the_tag(registry: Registry) -> None:
    registry.tag("stable", 1)
    with pytest.raises(ModelInUse, match=r"'m@1' is used by tag stable"):
        registry.models.remove("alice", "m@1")
    registry.users = (Usage("service", "default/faces", "alice"),)
    with pytest.raises(ModelInUse, match=r"'m@stable' is used by service default/faces"):
        registry.models.remove_tag("alice", "m", "stable")
    assert registry.uses[-1] == ModelUse("alice", frozenset({"m@stable"}))
    registry.users = ()
    registry.models.remove_tag("alice", "m", "stable")
    registry.models.remove("alice", "m@1")
    assert registry.uses[-1].names == {"m@1"} and registry.uses[-1].files == {registry.versions[0].card.sha256}
    assert (registry.meant("m@1"), registry.meant("m")) == (None, 3)


def test_the_newest_is_used_by_the_plain_name_and_its_number_is_not_given_again(registry: Registry) -> None:
    registry.users = (Usage("service", "default/faces", "alice"),)
    with pytest.raises(ModelInUse):
        registry.models.remove("alice", "m@3")
    assert registry.uses[-1].names == {"m@3", "m"}
    registry.users = ()
    registry.models.remove("alice", "m@3")
    assert registry.meant("m") == 2
    assert registry.add().version == 4


def test_a_model_goes_with_all_its_versions_tags_and_files(registry: Registry) -> None:
    registry.tag("stable", 2)
    registry.models.remove("alice", "m")
    assert registry.uses[-1].names == {"m", "m@1", "m@2", "m@3", "m@stable"}
    assert not blobs(registry.models)
    assert [registry.meant(name) for name in ("m", "m@1", "m@stable")] == [None] * 3
    assert registry.add(NewVersion()).version == 1
    assert registry.models.versions("alice", "m")[1] == {}


def test_a_model_that_was_called_so_before_there_were_versions_keeps_its_name(container: Container) -> None:
    record = finished_job(container, "alice", name="old@1")
    assert container.models.find("alice", "old@1", now=NOW)
    old = container.models.get("alice", "old@1")
    assert (old.name, old.version, old.job_id) == ("old@1", 1, record.job_id)
    container.models.remove("alice", "old@1")
    assert container.models.storage.look("alice", "old@1") is None


def test_preprocessing_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(ValidationError, match="nested too deeply"):
        ModelUpload.model_validate({"name": "face", "preprocess": "[" * 100_000})
