"""Stores models and their files together: no row without its files, no file without a row.

Files are shared by all users who have them. They are copied before the row is written, because that may take time; the
row is written only while they exist, and they are deleted only while no row refers to them, one at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from app.conversion.errors import ArtifactNotReady
from app.inference.model_card import ModelCard
from app.kit.errors import ModelmillError
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.blobs import blob_key
from app.kit.sql import Database
from app.kit.sql.pages import cut_page, read_cursor
from app.model_registry import store
from app.model_registry.errors import FilesBusy, ModelExists, ModelInUse, TagNotFound
from app.model_registry.model import Model, is_name, no_such_model, split_name

TRIES = 5


class Source(Protocol):
    """A file in the object store: an artifact of a job, or a new upload."""

    @property
    def key(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def sha256(self) -> str: ...


class ModelStorage:
    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def get(self, owner: str, name: str) -> Model:
        """Returns a model.

        Raises:
            ModelNotFound: The user has none of this name.
        """
        model = self.look(owner, name)
        if model is None:
            raise no_such_model(name)
        return model

    def look(self, owner: str, name: str) -> Model | None:
        if not is_name(split_name(name)[0]):
            return None
        with self.database.read() as conn:
            return store.get_model(conn, owner, name)

    def refuse_taken(self, owner: str, name: str) -> None:
        """Checks that a name is free before the work starts.

        Raises:
            ModelExists: It is taken.
        """
        if self.look(owner, name) is not None:
            raise _make_taken(name)

    def page(self, owner: str, text: str, cursor: str | None, limit: int) -> tuple[list[Model], str | None]:
        """Returns a page of a user's models, the newest first.

        Args:
            text: part of a name.
            cursor: from the previous page; None for the first.

        Returns:
            The models, and the cursor of the next page; None if there is none.

        Raises:
            BadInput: The cursor is not from a page.
        """
        with self.database.read() as conn:
            models = store.page(conn, owner, text=text, after=read_cursor(cursor, " "), limit=limit + 1)
        return cut_page(models, limit, lambda model: (model.created_at, model.name), " ")

    def versions(self, owner: str, name: str) -> tuple[list[Model], dict[str, int]]:
        """Returns the versions of a model, the newest first, and the version of each tag.

        Raises:
            ModelNotFound: The user has none of this name.
        """
        with self.database.read() as conn:
            return _require_versions(store.versions_of(conn, owner, name), name), store.tags_of(conn, owner, name)

    def tagged(self, owner: str, most: int) -> list[str]:
        """Returns a user's tags as faces@stable, sorted, at most this many."""
        with self.database.read() as conn:
            return store.tagged(conn, owner, most)

    def put_tag(self, owner: str, name: str, tag: str, version: int, at: str) -> None:
        """Makes a tag of this model refer to this version.

        Args:
            name: of the model, plain.
            at: the time, ISO 8601.

        Raises:
            ModelNotFound: There is no such version.
        """
        with self.database.write() as conn:
            store.lock_files(conn)
            if version not in {
                model.version for model in _require_versions(store.versions_of(conn, owner, name), name)
            }:
                raise no_such_model(f"{name}@{version}")
            store.put_tag(conn, owner, name, tag, version, at)

    def remove_tag(self, owner: str, name: str, tag: str) -> None:
        """Removes a tag.

        Raises:
            TagNotFound: It does not exist.
        """
        with self.database.write() as conn:
            if not store.remove_tag(conn, owner, name, tag):
                raise no_such_tag(name, tag)

    def add(self, model: Model, sources: Sequence[Source], *, is_next: bool = False) -> Model:
        """Stores a model.

        Args:
            sources: of the model's file and of its twin.
            is_next: it is the next version if the name exists.

        Raises:
            ModelExists: The name is taken.
            ArtifactNotReady: A file is gone.
            FilesBusy: Its files are being removed at the same time.
        """
        try:
            for _ in range(TRIES):
                for source in sources:
                    self._copy(source)
                if written := self._write(model, is_next=is_next):
                    return written
        except store.NameTaken:
            self._drop_orphans(model.card)
            raise _make_taken(model.name) from None
        except BaseException:
            with contextlib.suppress(ModelmillError):
                self._drop_orphans(model.card)
            raise
        raise FilesBusy(f"The files of {model.name} are being removed and added elsewhere.", hint="Try again.")

    def remove(self, owner: str, name: str) -> None:
        """Removes a model with all its versions, or for `name@3` that version. If the object store is unreachable, the
        model stays.

        Raises:
            ModelNotFound: The user has none of this name.
            ModelInUse: A tag refers to this version.
        """
        with self.database.write() as conn:
            store.lock_files(conn)
            model = store.get_model(conn, owner, name) if is_name(split_name(name)[0]) else None
            if model is None:
                raise no_such_model(name)
            all_versions = store.versions_of(conn, owner, model.name)
            if name == model.name or len(all_versions) == 1:
                removed = store.remove_model(conn, owner, model.name)
            else:
                refuse_tagged(model, store.tags_of(conn, owner, model.name))
                store.remove_version(conn, model)
                removed = [model]
            digests = {sha256 for each in removed for sha256 in files_of(each.card)}
            self._delete(digests - store.list_named_files(conn, digests))

    def _write(self, model: Model, *, is_next: bool) -> Model | None:
        """Returns None if the last other model with these files was removed in the meantime."""
        with self.database.write() as conn:
            store.lock_files(conn)
            if not all(self._has(sha256) for sha256 in files_of(model.card)):
                return None
            return store.add_model(conn, model, is_next=is_next)

    def _copy(self, source: Source) -> None:
        if self._has(source.sha256):
            return
        try:
            size_bytes = self.objects.info(source.key).size_bytes
            if size_bytes != source.size_bytes:
                raise ObjectMissing(f"{source.key} has {size_bytes} bytes and not {source.size_bytes}.")
            self.objects.copy(source.key, blob_key(source.sha256))
        except ObjectMissing:
            name = source.key.rpartition("/")[2]
            raise ArtifactNotReady(f"The file {name} is no longer there.", hint="Convert the model again.") from None

    def _has(self, sha256: str) -> bool:
        try:
            self.objects.info(blob_key(sha256))
        except ObjectMissing:
            return False
        return True

    def _drop_orphans(self, card: ModelCard) -> None:
        with self.database.write() as conn:
            store.lock_files(conn)
            self._delete(files_of(card) - store.list_named_files(conn, files_of(card)))

    def _delete(self, digests: Collection[str]) -> None:
        for sha256 in sorted(digests):
            self.objects.delete(blob_key(sha256))


def files_of(card: ModelCard) -> set[str]:
    return {card.sha256, card.twin_sha256} - {""}


def refuse_tagged(model: Model, tags: Mapping[str, int]) -> None:
    """Checks that no tag refers to this version.

    Raises:
        ModelInUse: One does.
    """
    named = [f"tag {tag}" for tag, version in tags.items() if version == model.version]
    if named:
        raise ModelInUse(
            f"The model {model.pin!r} is used by {', '.join(named)}.",
            hint="Set the tag to another version, or remove it.",
            detail={"used_by": named},
        )


def no_such_tag(name: str, tag: str) -> TagNotFound:
    return TagNotFound(f"The model {name!r} has no tag {tag!r}.", hint="Those it has: `modelmill models versions`.")


def _require_versions(versions: list[Model], name: str) -> list[Model]:
    if not versions:
        raise no_such_model(name)
    return versions


def _make_taken(name: str) -> ModelExists:
    return ModelExists(
        f"You have a model {name!r} already.",
        hint="Choose another name, add it as the next version of that one, or remove that one first.",
    )
