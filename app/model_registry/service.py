"""The verbs of models by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.conversion.errors import ArtifactNotReady
from app.conversion.model import JobRecord
from app.conversion.options import Preprocess
from app.conversion.service import Conversion
from app.conversion.service.uploads import FileParts
from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Decoder
from app.inference.preprocess_options import read_preprocess
from app.kit.access import Member
from app.kit.clock import to_text
from app.kit.errors import BadInput
from app.kit.objects import ObjectStore
from app.kit.objects.blobs import blob_key
from app.kit.sql import Database
from app.model_registry.contract import MemberOf, Note, OnChange, UsersOf
from app.model_registry.errors import ModelExists, ModelInUse
from app.model_registry.imports import ImportedModel, ModelImports
from app.model_registry.job_models import JobModels
from app.model_registry.model import (
    AT,
    FACTS,
    FIRST,
    Model,
    ModelUse,
    NewVersion,
    check_labels,
    check_name,
    check_tag,
    is_name,
    pins,
)
from app.model_registry.model_access import ModelAccess
from app.model_registry.storage import ModelStorage, Source, no_such_tag, refuse_tagged

__all__ = ["Model", "Models", "NewVersion"]
NAMED_USERS = 5


@dataclass(eq=False)
class Models:
    """Every verb takes the user; another user's model is as if it did not exist, except that `find` returns what its
    owner lets them use, see ModelAccess.

    Args:
        conversion: whose jobs models may come from.
        users_of: what uses a model.
        on_change: called when a name refers to another version, or others may use it or no longer.
        member_of: gives a user's groups.
        note: writes an entry of the audit log.
    """

    database: Database
    objects: ObjectStore
    conversion: Conversion
    users_of: UsersOf = lambda _: ()
    on_change: OnChange = lambda *_: None
    member_of: MemberOf = Member
    note: Note = lambda *_: None

    def __post_init__(self) -> None:
        self.storage = ModelStorage(self.database, self.objects)
        self.imports = ModelImports(self.objects, self.conversion)
        self.job_models = JobModels(self.conversion.jobs)
        self.access = ModelAccess(self.database, self.on_change, self.member_of, self.note)

    def find(self, user: str, name: str, *, now: datetime) -> Model | None:
        """Returns the model of this name, if there is one: the newest version of a plain name, or what name@3 and
        name@stable refer to.

        A name that is not registered is searched among the user's completed jobs, as `name-or-id`, or
        `name-or-id/out.nef` (or out.bie, out.onnx; by default out.nef). The model is then registered under this name,
        so that it remains when its job expires. If several jobs have exactly this name, the newest counts.

        Last, `owner/name` is a model of another owner that this user may use.
        """
        model = self.storage.look(user, name)
        if model is not None or not is_name(name):
            return model
        for job, file_format in pins(name):
            record = self.job_models.job(user, job, file_format)
            if record is not None:
                return self._find_pinned(user, name, record, file_format, now)
        return self.access.find(user, name)

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
        versioning: NewVersion = FIRST,
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
        name, labels = self._choose_name(user, name, versioning), check_labels(labels)
        record = self.job_models.jobs.get(job_id, user)
        model, sources = self.job_models.made(
            user, name, record, artifact, now=now, decoder=decoder, labels=labels, note=versioning.note
        )
        return self._keep(model, sources, versioning)

    def check_new(self, user: str, name: str, labels: Sequence[str] = (), versioning: NewVersion = FIRST) -> None:
        """Checks what can be checked before a file is sent. Arguments as of `add_upload`.

        Raises:
            ModelExists: The name is taken.
            BadInput: The name or the labels are not valid.
        """
        check_labels(labels)
        self._choose_name(user, name, versioning)

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
        versioning: NewVersion = FIRST,
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
            user, name, imported, now=now, decoder=decoder, labels=labels, preprocess=preprocess, versioning=versioning
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
        versioning: NewVersion = FIRST,
    ) -> Model:
        """The second half of `add_upload`, for a name that comes after the file; the first is imports.receive. What was
        received is always removed from the uploads. Raises the same errors as `add_upload`.

        Args:
            imported: what was received.
        """
        try:
            card = ModelCard(
                name=self._choose_name(user, name, versioning),
                format=Format.ONNX,
                sha256=imported.stored.sha256,
                size_bytes=imported.stored.size_bytes,
                decoder=decoder,
                labels=check_labels(labels),
                preprocess=preprocess.to_json() if preprocess else {},
            )
            facts = {key: imported.facts.get(key) for key in FACTS}
            model = Model(user, card, to_text(now), facts=facts, note=versioning.note)
            return self._keep(model, [imported.stored], versioning)
        finally:
            self.imports.discard(imported)

    def set_decoder(self, user: str, name: str, decoder: str, *, now: datetime, note: str = "") -> Model:
        """Registers the next version of a model: the same network with this decoder in its file.

        Args:
            name: of the model, or of one of its versions.
            decoder: Python text with a function `decode`; nothing of it is run here.
            note: of the version's user.

        Raises:
            ModelNotFound: The user has none of this name.
            BadInput: It is no ONNX.
            BadRequest: The text is no such decoder.
        """
        model = self.get(user, name)
        card = model.card
        if card.format is not Format.ONNX:
            raise BadInput(
                f"The model {name!r} is no ONNX.",
                hint="Only an ONNX holds a decoder. Register the ONNX of the conversion, and give that one a decoder.",
            )
        imported = self.imports.copy_with_decoder(user, blob_key(card.sha256), decoder)
        return self.add_received(
            user,
            model.name,
            imported,
            now=now,
            decoder=Decoder.ENCLOSED,
            labels=card.labels,
            preprocess=read_preprocess(card.preprocess) if card.preprocess else None,
            versioning=NewVersion(True, note),
        )

    def page(
        self, user: str, *, text: str = "", cursor: str | None = None, limit: int = 50
    ) -> tuple[list[Model], str | None]:
        """Returns a page of models, the newest first, and the cursor of the next page.

        Args:
            text: part of the name.
        """
        return self.storage.page(user, text, cursor, limit)

    def get(self, user: str, name: str) -> Model:
        """Returns a model.

        Raises:
            ModelNotFound: The user has none of this name.
        """
        return self.storage.get(user, name)

    def suggestions(self, user: str, *, most: int) -> list[str]:
        """Returns names to choose from: of models, the newest first, of their tags, and of models of others.

        Args:
            most: number of each.
        """
        models, _ = self.page(user, limit=most)
        shared = self.access.suggestions(user, most=most)
        return [*(model.name for model in models), *self.storage.tagged(user, most), *shared]

    def versions(self, user: str, name: str) -> tuple[list[Model], dict[str, int]]:
        """Returns the versions of a model, the newest first, and the version of each tag.

        Args:
            name: plain, or of one of its versions.

        Raises:
            ModelNotFound: The user has none of this name.
        """
        return self.storage.versions(user, self.get(user, name).name)

    def set_tag(self, user: str, name: str, tag: str, version: int, *, now: datetime) -> None:
        """Makes name@tag refer to this version; what follows the tag is updated.

        Args:
            name: of the model, plain.
            version: an existing one.

        Raises:
            ModelNotFound: There is no such model or version.
            BadTag: The tag is not valid.
        """
        self.storage.put_tag(user, name, check_tag(tag), version, to_text(now))
        self.on_change(user, name)

    def remove_tag(self, user: str, name: str, tag: str) -> None:
        """Removes a tag.

        Raises:
            ModelNotFound, TagNotFound: It does not exist.
            ModelInUse: Something refers to it.
        """
        _, tags = self.storage.versions(user, name)
        if tag not in tags:
            raise no_such_tag(name, tag)
        self._refuse_used(user, name, frozenset({f"{name}{AT}{tag}"}), f"{name}{AT}{tag}")
        self.storage.remove_tag(user, name, tag)

    def remove(self, user: str, name: str) -> None:
        """Removes a model with all its versions, or for `name@3` this version, if `require_unused` allows it. Files are
        deleted if no other model has them."""
        self.require_unused(user, name)
        self.storage.remove(user, name)

    def require_unused(self, user: str, name: str) -> None:
        """Checks that a model or version can be removed.

        Raises:
            ModelNotFound: The user has none of this name.
            ModelInUse: Something uses it, or a tag refers to this version.
        """
        model = self.get(user, name)
        all_versions, tags = self.storage.versions(user, model.name)
        gone = all_versions if name == model.name else [model]
        if name != model.name:
            refuse_tagged(model, tags)
        numbers = {each.version for each in gone}
        tagged = (f"{model.name}{AT}{tag}" for tag, version in tags.items() if version in numbers)
        newest = {model.name} if all_versions[0].version in numbers else set[str]()
        names = frozenset({*(each.pin for each in gone), *tagged, *newest})
        self._refuse_used(user, model.name, names, name, frozenset(each.card.sha256 for each in gone))

    def _refuse_used(
        self, user: str, model: str, names: frozenset[str], name: str, files: frozenset[str] = frozenset()
    ) -> None:
        """Checks that nothing uses these names and files of a plain name."""
        use = ModelUse(user, names, files, self.access.admits(self.access.rule(user, model)))
        reader = self.access.member_of(user)
        users = list(dict.fromkeys(usage.words(reader) for usage in self.users_of(use)))
        if users:
            further = f" and {len(users) - NAMED_USERS} more" if len(users) > NAMED_USERS else ""
            raise ModelInUse(
                f"The model {name!r} is used by {', '.join(users[:NAMED_USERS])}{further}.",
                hint="End them, or have them use another model, and remove it then.",
                detail={"used_by": users},
            )

    def _choose_name(self, user: str, name: str, versioning: NewVersion) -> str:
        """Returns the name that a new model gets.

        Raises:
            ModelExists: It is taken.
            BadModelName: It is not valid.
        """
        known = self.storage.look(user, name.strip()) if versioning.is_next else None
        name = known.name if known is not None and known.name == name.strip() else check_name(name)
        if not versioning.is_next:
            self.storage.refuse_taken(user, name)
        return name

    def _keep(self, model: Model, sources: Sequence[Source], versioning: NewVersion) -> Model:
        kept = self.storage.add(model, sources, is_next=versioning.is_next)
        if kept.version > 1:
            self.on_change(kept.owner, kept.name)
        return kept

    def _find_pinned(self, user: str, name: str, record: JobRecord, file_format: Format, now: datetime) -> Model | None:
        try:
            return self._keep(*self.job_models.made(user, name, record, file_format, now=now), FIRST)
        except ModelExists:  # another request has registered it at the same time
            return self.storage.look(user, name)
        except ArtifactNotReady:
            return None
