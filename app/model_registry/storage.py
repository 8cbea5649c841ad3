"""Stores models and their files together: no row without its files, no file that no row names.

Files are the same for everybody who has them. They are copied before the row is written, for that may take its time;
the row is written only while they are there, and they are deleted only while no row names them, one at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Protocol

from app.conversion.errors import ArtifactNotReady
from app.inference.prediction import ModelCard
from app.kit.errors import ModelmillError
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.blobs import blob_key
from app.kit.sql import Database
from app.model_registry import store
from app.model_registry.errors import FilesBusy, ModelExists
from app.model_registry.model import Model, is_name, no_such_model

TRIES = 5


class Source(Protocol):
    """A file in the object store: an artifact of a job, or what was just stored."""

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
        """Raises ModelNotFound."""
        model = self.look(owner, name)
        if model is None:
            raise no_such_model(name)
        return model

    def look(self, owner: str, name: str) -> Model | None:
        if not is_name(name):
            return None
        with self.database.read() as conn:
            return store.get_model(conn, owner, name)

    def refuse_taken(self, owner: str, name: str) -> None:
        """Raises ModelExists, before the work is done."""
        if self.look(owner, name) is not None:
            raise _taken(name)

    def page(self, owner: str, text: str, cursor: str | None, limit: int) -> tuple[list[Model], str | None]:
        """A page of a user's models, the newest first.

        Args:
            text: part of a name.
            cursor: from the page before; None: the first page.

        Returns:
            The models, and the cursor of the next page; None: this was the last.
        """
        at, _, name = (cursor or "").partition(" ")
        with self.database.read() as conn:
            models = store.page(conn, owner, text=text, after=(at, name) if cursor else None, limit=limit + 1)
        last = models[limit - 1] if len(models) > limit else None
        return models[:limit], f"{last.created_at} {last.name}" if last else None

    def add(self, model: Model, sources: Sequence[Source]) -> Model:
        """sources: of the model's file and of its twin. Raises ModelExists, ArtifactNotReady, FilesBusy."""
        try:
            for _ in range(TRIES):
                for source in sources:
                    self._copy(source)
                if self._written(model):
                    return model
        except store.NameTaken:
            self._drop_orphans(model.card)
            raise _taken(model.name) from None
        except BaseException:
            with contextlib.suppress(ModelmillError):
                self._drop_orphans(model.card)
            raise
        raise FilesBusy(f"The files of {model.name} are being removed and added elsewhere.", hint="Try again.")

    def remove(self, owner: str, name: str) -> None:
        """Raises ModelNotFound. The store being away, the model stays."""
        if not is_name(name):
            raise no_such_model(name)
        with self.database.write() as conn:
            store.lock_files(conn)
            model = store.remove_model(conn, owner, name)
            if model is None:
                raise no_such_model(name)
            self._delete(files_of(model.card) - store.named_files(conn, files_of(model.card)))

    def _written(self, model: Model) -> bool:
        """False: somebody removed the last other model with these files meanwhile."""
        with self.database.write() as conn:
            store.lock_files(conn)
            if not all(self._has(sha256) for sha256 in files_of(model.card)):
                return False
            store.add_model(conn, model)
            return True

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
            self._delete(files_of(card) - store.named_files(conn, files_of(card)))

    def _delete(self, digests: Collection[str]) -> None:
        for sha256 in sorted(digests):
            self.objects.delete(blob_key(sha256))


def files_of(card: ModelCard) -> set[str]:
    return {card.sha256, card.twin_sha256} - {""}


def _taken(name: str) -> ModelExists:
    return ModelExists(f"You have a model {name!r} already.", hint="Choose another name, or remove that one first.")
