"""The verbs of models by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from app.conversion.errors import ArtifactNotReady
from app.conversion.model import JobRecord
from app.conversion.options import Preprocess
from app.conversion.service import Conversion
from app.conversion.service.uploads import FileParts
from app.inference.prediction import Decoder, Format, ModelCard
from app.kit.clock import to_text
from app.kit.objects import ObjectStore
from app.kit.sql import Database
from app.model_registry.errors import ModelExists, ModelInUse
from app.model_registry.imports import ImportedModel, ModelImports
from app.model_registry.job_models import JobModels
from app.model_registry.model import (
    AT,
    FACTS,
    FIRST,
    Model,
    ModelUse,
    Versioning,
    checked_labels,
    checked_name,
    checked_tag,
    is_name,
    pins,
)
from app.model_registry.storage import ModelStorage, Source, no_such_tag, refuse_tagged

__all__ = ["Model", "Models", "Versioning"]
NAMED_USERS = 5
UsersOf = Callable[[ModelUse], Sequence[str]]
"""What uses a model, each as a user knows it: `service default/faces`."""
OnChange = Callable[[str, str], None]
"""Called with the owner and the plain name of a model when one of its names means another version now."""


class Models:
    """Every verb takes the user; another user's model is as if it did not exist.

    Args:
        conversion: whose jobs models may come from.
        users_of: what uses a model.
        on_change: hears of another version behind a name.
    """

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        conversion: Conversion,
        users_of: UsersOf = lambda _: (),
        on_change: OnChange = lambda *_: None,
    ) -> None:
        self.users_of = users_of
        self.on_change = on_change
        self.database = database
        self.objects = objects
        self.storage = ModelStorage(database, objects)
        self.imports = ModelImports(objects, conversion)
        self.job_models = JobModels(conversion.jobs)

    def find(self, user: str, name: str, *, now: datetime) -> Model | None:
        """The model of this name, if there is one: its newest version; of name@3 and name@stable what these mean.

        One that is not registered is looked for among the user's completed jobs, as `name-or-id`, or
        `name-or-id/out.nef` (or out.bie, out.onnx; without one: out.nef), and is then registered under this name, so
        that it stays when its job expires. Of several jobs of that very name it is the newest.
        """
        model = self.storage.look(user, name)
        if model is not None or not is_name(name):
            return model
        for job, file_format in pins(name):
            record = self.job_models.job(user, job, file_format)
            if record is not None:
                return self._pinned(user, name, record, file_format, now)
        return None

    def add_from_job(
        self,
        user: str,
        name: str,
        job_id: str,
        artifact: Format,
        *,
        now: datetime,
        decoder: Decoder = Decoder.AUTO,
        labels: Sequence[str] = (),
        versioning: Versioning = FIRST,
    ) -> Model:
        """Register what a job has made.

        Args:
            name: of the model; one of each user's.
            artifact: which of the job's files.
            decoder: how outputs are read; AUTO: by their names and shapes.
            labels: names of the classes, by number; empty: classes are shown by number.
            versioning: whether it is the next version of this name, and what its user says of it.

        Raises:
            JobNotFound: It is not this user's, either.
            ArtifactNotReady: The job has not made this file (yet).
            ModelExists: The name is taken.
            BadInput: The name or the labels are none.
        """
        name, labels = self._target(user, name, versioning), checked_labels(labels)
        record = self.job_models.jobs.get(job_id, user)
        model, sources = self.job_models.made(
            user, name, record, artifact, now=now, decoder=decoder, labels=labels, note=versioning.note
        )
        return self._keep(model, sources, versioning)

    def check_new(self, user: str, name: str, labels: Sequence[str] = (), versioning: Versioning = FIRST) -> None:
        """What can be said before a file is sent. Arguments as of `add_upload`. Raises ModelExists, BadInput."""
        checked_labels(labels)
        self._target(user, name, versioning)

    def add_upload(
        self,
        user: str,
        name: str,
        chunks: Iterable[bytes],
        *,
        now: datetime,
        weights: FileParts | None = None,
        decoder: Decoder = Decoder.AUTO,
        labels: Sequence[str] = (),
        preprocess: Preprocess | None = None,
        versioning: Versioning = FIRST,
    ) -> Model:
        """Register an ONNX that its user uploads.

        Args:
            chunks: the file.
            weights: files beside it; None: the weights are inside.
            decoder: how outputs are read; AUTO: by their names and shapes.
            labels: names of the classes, by number; empty: classes are shown by number.
            preprocess: how pictures are prepared; None: as the family of its decoder is used to.
            versioning: whether it is the next version of this name, and what its user says of it.

        Raises:
            ModelTooLarge: More than is accepted here.
            ModelExists: The name is taken.
            BadInput: The file is no model, or the name or the labels are none.
        """
        self.check_new(user, name, labels, versioning)
        imported = self.imports.receive(user, chunks, weights)
        return self.add_received(
            user,
            name,
            imported,
            now=now,
            decoder=decoder,
            labels=labels,
            preprocess=preprocess,
            versioning=versioning,
        )

    def add_received(
        self,
        user: str,
        name: str,
        imported: ImportedModel,
        *,
        now: datetime,
        decoder: Decoder = Decoder.AUTO,
        labels: Sequence[str] = (),
        preprocess: Preprocess | None = None,
        versioning: Versioning = FIRST,
    ) -> Model:
        """The second half of `add_upload`, where the name comes after the file; the first is imports.receive. What was
        received is removed from the uploads in every case. Raises as `add_upload`.

        Args:
            imported: what was received.
        """
        try:
            card = ModelCard(
                name=self._target(user, name, versioning),
                format=Format.ONNX,
                sha256=imported.stored.sha256,
                size_bytes=imported.stored.size_bytes,
                decoder=decoder,
                labels=checked_labels(labels),
                preprocess=preprocess.to_json() if preprocess else {},
            )
            facts = {key: imported.facts.get(key) for key in FACTS}
            model = Model(user, card, to_text(now), facts=facts, note=versioning.note)
            return self._keep(model, [imported.stored], versioning)
        finally:
            self.imports.discard(imported)

    def page(
        self, user: str, *, text: str = "", cursor: str | None = None, limit: int = 50
    ) -> tuple[list[Model], str | None]:
        """Newest first.

        Args:
            text: in the name.
        """
        return self.storage.page(user, text, cursor, limit)

    def get(self, user: str, name: str) -> Model:
        """Raises ModelNotFound."""
        return self.storage.get(user, name)

    def suggestions(self, user: str, *, most: int) -> list[str]:
        """Names to choose from: of models, the newest first, and of their tags.

        Args:
            most: of each.
        """
        models, _ = self.page(user, limit=most)
        return [*(model.name for model in models), *self.storage.tagged(user, most)]

    def versions(self, user: str, name: str) -> tuple[list[Model], dict[str, int]]:
        """The versions of a model, the newest first, and what its tags mean.

        Args:
            name: plain, or of one of its versions.

        Raises:
            ModelNotFound
        """
        return self.storage.versions(user, self.get(user, name).name)

    def set_tag(self, user: str, name: str, tag: str, version: int, *, now: datetime) -> None:
        """Have name@tag mean this version; what follows it is changed to it.

        Args:
            name: of the model, plain.
            version: one that is there.

        Raises:
            ModelNotFound: there is no such model or version.
            BadTag
        """
        self.storage.put_tag(user, name, checked_tag(tag), version, to_text(now))
        self.on_change(user, name)

    def remove_tag(self, user: str, name: str, tag: str) -> None:
        """Raises ModelNotFound, TagNotFound, ModelInUse."""
        _, tags = self.storage.versions(user, name)
        if tag not in tags:
            raise no_such_tag(name, tag)
        self._refuse_used(ModelUse(user, frozenset({f"{name}{AT}{tag}"})), f"{name}{AT}{tag}")
        self.storage.remove_tag(user, name, tag)

    def remove(self, user: str, name: str) -> None:
        """Forget a model with all its versions, or of `name@3` this one. Files go when no other model has them.

        Raises:
            ModelNotFound
            ModelInUse: something uses it, or a tag means this version.
        """
        model = self.get(user, name)
        all_versions, tags = self.storage.versions(user, model.name)
        if name == model.name:
            gone = all_versions
        else:
            gone = [model]
            refuse_tagged(model, tags)
        numbers = {each.version for each in gone}
        tagged = (f"{model.name}{AT}{tag}" for tag, version in tags.items() if version in numbers)
        newest = {model.name} if all_versions[0].version in numbers else set[str]()
        names = frozenset({*(each.pin for each in gone), *tagged, *newest})
        self._refuse_used(ModelUse(user, names, frozenset(each.card.sha256 for each in gone)), name)
        self.storage.remove(user, name)

    def _refuse_used(self, use: ModelUse, name: str) -> None:
        users = self.users_of(use)
        if users:
            further = f" and {len(users) - NAMED_USERS} more" if len(users) > NAMED_USERS else ""
            raise ModelInUse(
                f"The model {name!r} is used by {', '.join(users[:NAMED_USERS])}{further}.",
                hint="End them, or have them use another model, and remove it then.",
                detail={"used_by": list(users)},
            )

    def _target(self, user: str, name: str, versioning: Versioning) -> str:
        """The name that a new model may have. Raises ModelExists, BadModelName."""
        known = self.storage.look(user, name.strip()) if versioning.is_next else None
        name = known.name if known is not None and known.name == name.strip() else checked_name(name)
        if not versioning.is_next:
            self.storage.refuse_taken(user, name)
        return name

    def _keep(self, model: Model, sources: Sequence[Source], versioning: Versioning) -> Model:
        kept = self.storage.add(model, sources, is_next=versioning.is_next)
        if kept.version > 1:
            self.on_change(kept.owner, kept.name)
        return kept

    def _pinned(self, user: str, name: str, record: JobRecord, file_format: Format, now: datetime) -> Model | None:
        try:
            return self._keep(*self.job_models.made(user, name, record, file_format, now=now), FIRST)
        except ModelExists:  # somebody else looked for it at the same time
            return self.storage.look(user, name)
        except ArtifactNotReady:
            return None
