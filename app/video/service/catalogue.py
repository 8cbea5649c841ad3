"""Stages by name, the installation's: what users' DAGs may name without saying which models that means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime

from app.inference.model_card import ModelCard
from app.inference.prediction import Decoder
from app.kit.access import AccessRule, Member
from app.kit.clock import to_text
from app.kit.sql import Database
from app.model_registry.decoder_fit import unfit_decoder
from app.model_registry.model import ModelUse, Usage, build_shared_name, follows
from app.model_registry.service import Models
from app.nodes.service.contract import MemberOf, Note
from app.video import store
from app.video.errors import BadDag, BadStage, StageInUse, StageNotFound
from app.video.model.dag import MAX_VARIANTS, Dag
from app.video.model.dag_types import check_types
from app.video.model.kinds import GENERATORS, RENDER, Stage, StageKind, StageSpec
from app.video.model.reader import NAME, NAME_RULE


@dataclass(eq=False)
class Catalogue:
    """Stages of the installation.

    Args:
        kinds: The kinds of stages that nodes can run, by name.
        on_change: Called when a stage was added, removed or replaced.
        member_of: See NodeAccess.
        note: See NodeAccess.
    """

    database: Database
    models: Models
    _: KW_ONLY
    kinds: Callable[[], Mapping[str, StageKind]]
    on_change: Callable[[], None]
    member_of: MemberOf = Member
    note: Note = lambda *_: None

    def all(self) -> list[store.StoredStage]:
        """By name."""
        with self.database.read() as conn:
            return store.all_stages(conn)

    def seen_by(self, user: str) -> list[store.StoredStage]:
        """Those that this user may use, by name."""
        member = self.member_of(user)
        return [listed for listed in self.all() if listed.allowed.admits(member)]

    def names_seen_by(self, user: str) -> set[str]:
        """Of the stages that this user may use."""
        return {listed.spec.name for listed in self.seen_by(user)}

    def usages(self, use: ModelUse) -> list[Usage]:
        """Stages with models of this owner that require this of a model; also those of users who may no longer use
        it, because what they pinned goes on in new jobs."""
        prefix = build_shared_name(use.owner, "")
        with self.database.read() as conn:
            return [
                Usage("stage", listed.spec.name, listed.owner)
                for listed in store.all_stages(conn)
                if listed.stage.has_model(use.files, "" if listed.owner == use.owner else prefix)
                or use.has(listed.owner, *listed.spec.model_names)
            ]

    def model_changed(self, owner: str, model: str, *, now: datetime) -> None:
        """A name of this model now refers to another version: pins it again in the stages that use it, also those of
        other owners who may. Running jobs keep what they have. A stage that cannot be pinned (the version does not fit
        its decoder, the model is not for its owner any more, its kind was removed) stays as it is, with the reason."""
        for each in self.all():
            if any(follows(name, owner, model, by=each.owner) for name in each.spec.model_names):
                try:
                    stage = self._pin(each.owner, each.spec, now)
                    pinned = replace(each, created_at=to_text(now), stage=stage, problem="")
                except BadStage as error:
                    pinned = replace(each, problem=f"{error.message}\n{error.hint}".strip())
                self._replace(each, pinned)

    def _replace(self, before: store.StoredStage, after: store.StoredStage) -> None:
        """Replaces a stage, unless it was removed or replaced meanwhile: its new models were looked up later."""
        with self.database.write() as conn:
            current = store.get_stage(conn, before.spec.name)
            if current is None or replace(current, allowed=before.allowed) != before:
                return
            store.put_stage(conn, after)
        self.on_change()

    def allowed(self, name: str) -> AccessRule:
        """Returns who may use it."""
        with self.database.read() as conn:
            return _require(store.get_stage(conn, name), name).allowed

    def permit(self, name: str, allowed: AccessRule, *, by: str) -> None:
        """Sets who may use it; running jobs keep what they have."""
        with self.database.write() as conn:
            if _require(store.get_stage(conn, name), name).allowed == allowed:
                return
            store.put_allowed(conn, name, allowed)
            self.note(conn, by, "stage.access", f"stage:{name}", {"allowed": allowed.to_json()})

    def put(self, owner: str, spec: StageSpec, *, now: datetime) -> Stage:
        """Adds or replaces it; its models are the owner's and are pinned now. Running jobs keep what they have. Raises
        BadStage: unknown kind, missing models, too many or few, unknown parameters, a bad name, a decoder that does not
        fit."""
        if not NAME.fullmatch(spec.name) or spec.name in (RENDER, *GENERATORS):
            raise BadStage(
                f"{spec.name[:64]!r} cannot be the name of a stage.",
                hint=f"{NAME_RULE} {RENDER} and the generators have theirs.",
            )
        stage = self._pin(owner, spec, now)
        with self.database.write() as conn:
            store.put_stage(conn, store.StoredStage(owner, to_text(now), spec, stage))
        self.on_change()
        return stage

    def remove(self, name: str) -> None:
        """Removes a stage.

        Raises:
            StageNotFound: There is none.
            StageInUse: A job names it.
        """
        with self.database.write() as conn:
            _require(store.get_stage(conn, name), name)
            used = [
                stored.job.uid
                for stored in store.list_unended(conn)
                if name in stored.job.dag.stages and name not in stored.job.dag.own
            ]
            if used:
                raise StageInUse(
                    f"The stage {name!r} is used by {', '.join(used[:3])}.", hint="Cancel them, or wait for their end."
                )
            store.remove_stage(conn, name)
        self.on_change()

    def kinds_of_stages(self, user: str) -> dict[str, StageKind]:
        """By the name of a stage that this user may use; without those whose kind was removed with its package."""
        kinds = self.kinds()
        specs = (listed.spec for listed in self.seen_by(user))
        return {spec.name: kinds[spec.kind] for spec in specs if spec.kind in kinds}

    def resolve(self, owner: str, dag: Dag, *, now: datetime) -> tuple[Stage, ...]:
        """The stages of a DAG, its own first, with models pinned.

        Raises:
            BadDag: It has an unknown stage, or an input of another type than its stage takes.
            BadStage: An own stage is invalid, or a kind is not installed any more.
        """
        listed = {each.spec.name: each.stage for each in self.seen_by(owner)}
        own = {name: self._pin(owner, dag.own[name], now) for name in dag.stages if name in dag.own}
        unknown = [name for name in dag.stages if name not in own and name not in listed]
        if unknown:
            raise BadDag(
                f"There is no stage {unknown[0]!r}.",
                hint=f"The catalog has {', '.join(listed) or 'none'}. Declare others in dag.stages, or add them to "
                "the catalog.",
            )
        stages = (*own.values(), *(listed[name] for name in dag.stages if name not in own))
        check_types(dag, {stage.name: self._kind_of(stage.name, stage.kind) for stage in stages})
        return stages

    def _pin(self, owner: str, spec: StageSpec, now: datetime) -> Stage:
        kind = self._kind_of(spec.name, spec.kind)
        _check_counts(spec, kind)
        unknown = sorted(set(spec.parameters) - kind.parameters)
        if unknown:
            raise BadStage(
                f"The stage {spec.name!r} has a parameter {unknown[0][:64]!r}, which the kind {kind.name} has not.",
                hint=f"Parameters: {', '.join(sorted(kind.parameters)) or 'none'}.",
            )
        variants = tuple(
            tuple(self._find_card(owner, spec, name, kind, now) for name in names) for names in spec.models
        )
        return Stage(spec.name, spec.kind, variants or ((),), dict(spec.parameters))

    def _kind_of(self, name: str, kind: str) -> StageKind:
        """A kind of a catalog stage may also have been removed with its package."""
        kinds = self.kinds()
        if kind not in kinds:
            raise BadStage(
                f"The stage {name!r} is of the kind {kind[:64]!r}, which there is not.",
                hint=f"Kinds: {', '.join(sorted(kinds))}.",
            )
        return kinds[kind]

    def _find_card(self, owner: str, spec: StageSpec, name: str, kind: StageKind, now: datetime) -> ModelCard:
        model = self.models.find(owner, name, now=now)
        if model is None:
            raise BadStage(
                f"The stage {spec.name!r} needs a model {name[:200]!r}, which there is not.",
                hint="Add it under Models, by `modelmill models add` or POST /api/v2/models, and try again.",
            )
        problem = unfit_decoder(_read_decoder(spec, kind), model, name, kind.decoders or frozenset(Decoder))
        if problem:
            raise BadStage(problem)
        return model.card


def _require(listed: store.StoredStage | None, name: str) -> store.StoredStage:
    if listed is None:
        raise StageNotFound(f"There is no stage {name[:64]!r} in the catalog.")
    return listed


def _read_decoder(spec: StageSpec, kind: StageKind) -> Decoder:
    """Returns the decoder that a stage names, AUTO if none; its kind must be able to use it."""
    text = spec.parameters.get("decoder", "").strip().lower() or Decoder.AUTO.value
    try:
        named = Decoder(text)
    except ValueError:
        raise BadStage(f"The stage {spec.name!r} names a decoder {text[:64]!r}, which there is not.") from None
    if kind.decoders and named.is_bundled and named not in kind.decoders:
        raise BadStage(
            f"The stage {spec.name!r} names the decoder {named.value!r}, which the kind {kind.name} cannot use.",
            hint=f"Decoders: {', '.join(sorted(kind.decoders))}.",
        )
    return named


def _check_counts(spec: StageSpec, kind: StageKind) -> None:
    if len(spec.models) > MAX_VARIANTS or (not spec.models and not kind.takes(0)):
        raise BadStage(
            f"The stage {spec.name!r} has {len(spec.models)} models to choose from.",
            hint=f"It has 1 to {MAX_VARIANTS}: model_id 0 is the big one, 1 the medium one, 2 the small one.",
        )
    for index, names in enumerate(spec.models):
        if not kind.takes(len(names)):
            most = kind.models + kind.more_models
            raise BadStage(
                f"Model {index} of the stage {spec.name!r} has {len(names)} files; the kind {kind.name} takes "
                f"{kind.models if most == kind.models else f'{kind.models} to {most}'}."
            )
