"""The stages that a host currently serves, by job and name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from app.edge.video.stage_host.child_messages import ModelOnDisk, StageContent
from app.edge.video.stages.base import SEVERAL
from app.edge.video.stages.parameters import PROVIDER, batching_of, timeout_of
from app.edge.video.stages.registry import stage_class
from app.edge.video.work import ServicesWork
from app.inference.model_card import JOIN, MODEL_CARD, ModelCard
from app.inference.predictor_options import BatchOptions
from app.kit.errors import BadRequest, ModelmillError
from app.video.errors import StageNotFound
from app.video.model.kinds import Stage, StageKind


@dataclass(frozen=True)
class StageVariant:
    """A stage with one of its models."""

    key: str
    """The stage's name; for a job's own stage, after the job's uid and a slash."""
    id: str
    """Changes whenever anything in the variant does."""
    kind: StageKind
    cards: tuple[ModelCard, ...]
    content: StageContent
    """What a child needs to open it."""
    timeout_s: float
    batching: BatchOptions

    @property
    def model(self) -> str:
        return JOIN.join(card.name for card in self.cards)


class ServedStages:
    """The stages by job and name."""

    def __init__(self, work: ServicesWork) -> None:
        self.stages = work.content.stages
        self._blobs = work.blobs
        self._provider = work.provider
        self.ids = {
            _build_id(key, stage, model_id) for key, stage in self.stages.items() for model_id in _list_model_ids(stage)
        }

    @property
    def names(self) -> list[str]:
        """Returns the names of the catalog's stages, which every job may call."""
        return sorted(key for key in self.stages if "/" not in key)

    def key_of(self, job: str, name: str) -> str:
        """Returns the key of a stage; a job's own stage takes precedence over the catalog's.

        Raises:
            StageNotFound: There is none.
        """
        own = f"{job}/{name}"
        if job and own in self.stages:
            return own
        if name in self.stages and "/" not in name:
            return name
        raise StageNotFound("unregistered services")

    def variant(self, key: str, model_id: int) -> StageVariant:
        """Returns a variant.

        Raises:
            BadRequest, BadStage: It does not exist, or is not usable.
        """
        stage = self.stages[key]
        kind = stage_class(stage.kind).kind
        if model_id not in _list_model_ids(stage):
            raise BadRequest(
                f"The stage {key} has no model_id {model_id}.", hint=f"It has {len(stage.variants)}, from 0 on."
            )
        cards = stage.variants[model_id] if stage.variants else ()
        if not kind.takes(len(cards)):
            raise BadRequest(f"The stage {key} has {len(cards)} models, which {kind.name} cannot use.")
        content: StageContent = {
            "kind": stage.kind,
            "parameters": self._build_parameters(stage, kind),
            "models": [self._describe_file(card) for card in cards],
        }
        id_ = _build_id(key, stage, model_id)
        loaded = stage_class(stage.kind)
        batching = batching_of(stage.parameters) if hasattr(loaded, SEVERAL) else BatchOptions()
        return StageVariant(key, id_, kind, cards, content, timeout_of(stage.parameters), batching)

    def _build_parameters(self, stage: Stage, kind: StageKind) -> dict[str, str]:
        """Those of the stage, with the node's provider if it has none and can have one."""
        own = {PROVIDER: self._provider} if PROVIDER in kind.parameters else {}
        return {**own, **stage.parameters}

    def _describe_file(self, card: ModelCard) -> ModelOnDisk:
        path, twin = self._blobs.get(card.sha256), self._blobs.get(card.twin_sha256)
        if path is None:
            raise ModelmillError(f"The model {card.name} is not on this node.", hint="Its agent is to fetch it.")
        return {"card": MODEL_CARD.write(card), "path": str(path), "twin": str(twin) if twin else ""}


def _list_model_ids(stage: Stage) -> range:
    """Returns the ids of its models; a stage without models has one variant."""
    return range(max(1, len(stage.variants)))


def _build_id(key: str, stage: Stage, model_id: int) -> str:
    text = json.dumps([stage.to_json(), model_id], sort_keys=True)
    return f"{key}#{model_id}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"
