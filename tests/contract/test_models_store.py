"""One suite over both databases: models by name, and that no row is without its files nor a file without a row."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.bootstrap.accounts import MIGRATIONS
from app.inference.model_card import MODEL_CARD, Format, ModelCard
from app.inference.prediction import Decoder
from app.kit.access import EVERYBODY, AccessRule
from app.kit.objects import ObjectInfo, ObjectStore, Stored
from app.kit.objects.blobs import blob_key
from app.kit.objects.filesystem import FilesystemStore
from app.kit.sql import Database, migrations
from app.model_registry import store
from app.model_registry.errors import FilesBusy, ModelExists, ModelNotFound
from app.model_registry.model import Model
from app.model_registry.storage import ModelStorage, files_of
from tests.harness.databases import database, empty, together, url

__all__ = ["database", "empty", "url"]
AT = "2026-11-01T12:00:00.{:03}Z"


@pytest.fixture
def objects(tmp_path: Path) -> FilesystemStore:
    return FilesystemStore(tmp_path / "objects")


@pytest.fixture
def storage(database: Database, objects: FilesystemStore) -> ModelStorage:
    return ModelStorage(database, objects)


def stored(objects: ObjectStore, content: str) -> Stored:
    return objects.put(f"uploads/{content}", [content.encode()])


def model(name: str, own: Stored, twin: Stored | None = None, *, owner: str = "alice", at: int = 0) -> Model:
    card = ModelCard(
        name,
        Format.NEF,
        own.sha256,
        own.size_bytes,
        "host",
        twin.sha256 if twin else "",
        twin.size_bytes if twin else 0,
        {"scale": 1.5, "mean": [1, 2, 3]},
        Decoder.YUNET,
        ("臉", "mask"),
    )
    return Model(owner, card, AT.format(at), "some-job", {"inputs": [{"name": "x", "shape": ["n", 3], "dtype": "f"}]})


def files(objects: ObjectStore) -> set[str]:
    return {info.key.removeprefix("blobs/") for info in objects.list("blobs/")}


def test_a_model_comes_back_as_it_was(storage: ModelStorage, objects: ObjectStore) -> None:
    own, twin = stored(objects, "nef"), stored(objects, "onnx")
    kept = storage.add(model("臉 / out.nef", own, twin), [own, twin])
    read_back = storage.get("alice", "臉 / out.nef")
    assert read_back == kept and json.dumps(MODEL_CARD.write(read_back.card)) == json.dumps(MODEL_CARD.write(kept.card))
    assert storage.look("bob", "臉 / out.nef") is None
    assert files(objects) == {own.sha256, twin.sha256}


def test_pages_are_newest_first_and_lose_and_repeat_nothing(storage: ModelStorage, objects: ObjectStore) -> None:
    own = stored(objects, "one")
    for number in range(7):
        storage.add(model(f"m{number}", own, at=number // 3), [own])
    storage.add(model("m9", own, owner="bob"), [own])
    seen, cursor = list[str](), None
    while True:
        page, cursor = storage.page("alice", "", cursor, 2)
        seen += [one.name for one in page]
        if cursor is None:
            break
    assert seen == ["m6", "m3", "m4", "m5", "m0", "m1", "m2"]


def test_a_text_is_looked_for_in_names_as_it_stands(storage: ModelStorage, objects: ObjectStore) -> None:
    own = stored(objects, "one")
    for name in ("Faces_1", "faces%2", "cars"):
        storage.add(model(name, own), [own])
    names_by_text = {
        text: [one.name for one in storage.page("alice", text, None, 9)[0]] for text in ("FACE", "_", "%", "x")
    }
    assert names_by_text == {"FACE": ["Faces_1", "faces%2"], "_": ["Faces_1"], "%": ["faces%2"], "x": []}


def test_only_what_others_may_use_is_listed_for_them_with_its_tags(storage: ModelStorage, objects: ObjectStore) -> None:
    own, lab = stored(objects, "one"), AccessRule(("@lab",))
    for owner, name in (("bob", "m"), ("alice", "n"), ("alice", "m"), ("alice", "private")):
        storage.add(model(name, own, owner=owner), [own])
    storage.put_tag("alice", "m", "stable", 1, AT)
    storage.put_tag("alice", "private", "stable", 1, AT)
    with storage.database.write() as conn:
        assert store.get_allowed(conn, "alice", "m") == AccessRule(())
        assert store.get_allowed(conn, "alice", "other") is None
        for owner, name, rule in (("bob", "m", EVERYBODY), ("alice", "n", lab), ("alice", "m", lab)):
            store.put_allowed(conn, owner, name, rule)
    with storage.database.read() as conn:
        shared = [(each.name, each.version, each.tags, rule) for each, rule in store.list_shared_models(conn)]
    assert shared == [("alice/m", 1, ("stable",), lab), ("alice/n", 1, (), lab), ("bob/m", 1, (), EVERYBODY)]


def test_of_many_who_want_a_name_at_once_one_gets_it(storage: ModelStorage, objects: ObjectStore) -> None:
    each = [stored(objects, f"content {number}") for number in range(8)]
    problems = together(lambda at: storage.add(model("m", each[at]), [each[at]]), 8)
    assert [type(problem) for problem in problems] == [ModelExists] * 7
    assert files(objects) == {storage.get("alice", "m").card.sha256}


def test_a_twin_is_as_good_a_reason_to_keep_a_file(storage: ModelStorage, objects: ObjectStore) -> None:
    own, shared = stored(objects, "nef"), stored(objects, "onnx")
    storage.add(model("nef", own, shared), [own, shared])
    storage.add(model("onnx", shared), [shared])
    storage.remove("alice", "onnx")
    assert files(objects) == {own.sha256, shared.sha256}
    storage.remove("alice", "nef")
    assert not files(objects)
    with pytest.raises(ModelNotFound):
        storage.remove("alice", "nef")


def test_a_model_whose_twin_is_itself_is_kept_and_removed(storage: ModelStorage, objects: ObjectStore) -> None:
    own = stored(objects, "same")
    storage.add(model("m", own, own), [own, own])
    storage.remove("alice", "m")
    assert not files(objects)


def test_while_many_come_and_go_every_row_has_its_files(storage: ModelStorage, objects: ObjectStore) -> None:
    """All of them share two files, and now and then the last one that has them goes."""
    own, twin = stored(objects, "nef"), stored(objects, "onnx")

    def come_and_go(at: int) -> None:
        one = model(f"m{at}", own, twin)
        for _ in range(random.Random(at).randint(6, 10)):
            storage.add(one, [own, twin])
            with storage.database.read() as conn:
                assert store.get_model(conn, "alice", one.name)
            assert files_of(one.card) <= files(objects)
            storage.remove("alice", one.name)

    broken = list[BaseException]()

    def tried(at: int) -> None:
        try:
            come_and_go(at)
        except AssertionError as error:
            broken.append(error)

    problems = together(tried, 4)
    assert not broken and {type(problem) for problem in problems} <= {FilesBusy}
    assert not files(objects)


class Snatching(FilesystemStore):
    """Somebody removes what was copied, so many times."""

    times = 0

    def copy(self, source: str, target: str) -> ObjectInfo:
        info = super().copy(source, target)
        if self.times:
            self.times -= 1
            self.delete(target)
        return info


def test_a_file_that_goes_between_copy_and_row_is_copied_again(database: Database, tmp_path: Path) -> None:
    objects = Snatching(tmp_path / "objects")
    own, objects.times = stored(objects, "nef"), 2
    storage = ModelStorage(database, objects)
    storage.add(model("m", own), [own])
    assert files(objects) == {own.sha256} and storage.get("alice", "m")
    assert objects.times == 0


def test_a_file_that_goes_again_and_again_is_given_up(database: Database, tmp_path: Path) -> None:
    objects = Snatching(tmp_path / "objects")
    own, objects.times = stored(objects, "nef"), 1000
    storage = ModelStorage(database, objects)
    with pytest.raises(FilesBusy):
        storage.add(model("m", own), [own])
    assert storage.look("alice", "m") is None and not files(objects)


class Meanwhile(FilesystemStore):
    """Somebody else begins to do something once it is known that a file is there."""

    begin: Callable[[], None] | None = None

    def info(self, key: str) -> ObjectInfo:
        facts = super().info(key)
        if self.begin is not None and key.startswith("blobs/"):
            self.begin()
        return facts


def test_the_last_other_model_goes_while_a_row_is_written(storage: ModelStorage, tmp_path: Path) -> None:
    objects = Meanwhile(tmp_path / "objects")
    own = stored(objects, "nef")
    storage.add(model("other", own), [own])
    removing = threading.Thread(target=storage.remove, args=("alice", "other"))

    def second() -> None:
        objects.begin = None
        removing.start()
        removing.join(0.5)  # it has to wait for us, so that it is not waited for here

    objects.begin = lambda: setattr(objects, "begin", second)
    ModelStorage(storage.database, objects).add(model("m", own), [own])
    removing.join()
    assert storage.look("alice", "other") is None and storage.look("alice", "m") is not None
    assert files(objects) == {own.sha256}


def test_what_no_database_could_hold_is_no_name(storage: ModelStorage) -> None:
    for name in ("a\0b", "\ud800", "", "x" * 300):
        assert storage.look("alice", name) is None
        with pytest.raises(ModelNotFound):
            storage.remove("alice", name)


def test_files_are_not_given_back_to_nobody(storage: ModelStorage, objects: ObjectStore) -> None:
    """A model that is refused leaves the files of others as they are."""
    own, other = stored(objects, "nef"), stored(objects, "other")
    storage.add(model("m", own), [own])
    with pytest.raises(ModelExists):
        storage.add(replace(model("m", other, own)), [other, own])
    assert files(objects) == {own.sha256}
    assert objects.info(blob_key(own.sha256)).size_bytes == 3


def test_models_from_before_there_were_versions_are_the_first_and_the_newest_stays_on_the_way_back(
    empty: Database,
) -> None:
    migrations.move(empty, MIGRATIONS, "0026")
    before = {"owner": "alice", "name": "m", "created_at": AT.format(0), "job_id": "j", "facts": "{}"}
    before |= {"card": json.dumps(MODEL_CARD.write(ModelCard("m", Format.ONNX, "0" * 64, 1))), "sha256": "0" * 64}
    former = sa.table("models", *(sa.column(name) for name in (*before, "twin_sha256")))
    with empty.write() as conn:
        conn.execute(sa.insert(former).values(**before, twin_sha256=""))
    migrations.upgrade(empty, MIGRATIONS)
    with empty.write() as conn:
        first = store.get_model(conn, "alice", "m@1")
        assert first is not None and first == store.get_model(conn, "alice", "m")
        assert (first.version, first.card.sha256, first.job_id, first.metrics) == (1, "0" * 64, "j", {})
        card = replace(first.card, sha256="1" * 64)
        assert store.add_model(conn, replace(first, card=card), is_next=True).version == 2
    migrations.move(empty, MIGRATIONS, "0026")
    with empty.read() as conn:
        assert [row.sha256 for row in conn.execute(sa.select(former))] == ["1" * 64]
