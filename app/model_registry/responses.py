"""Models as the JSON API shows them. Pure."""

from __future__ import annotations

from urllib.parse import urlencode

from app.model_registry import schemas
from app.model_registry.model import Model

MODELS = "/api/v2/models"
NAMED = f"{MODELS}/named"
FILE = f"{MODELS}/file"
PAGE = "/ui/models/named"


def at(path: str, name: str) -> str:
    return f"{path}?{urlencode({'name': name})}"


def shown(model: Model) -> schemas.ModelAnswer:
    card = model.card
    return schemas.ModelAnswer(
        name=card.name,
        format=card.format,
        toolchain=card.toolchain,
        created_at=model.created_at,
        job_id=model.job_id or None,
        size_bytes=card.size_bytes,
        sha256=card.sha256,
        twin_size_bytes=card.twin_size_bytes,
        twin_sha256=card.twin_sha256,
        decoder=card.decoder,
        labels=list(card.labels),
        preprocess=dict(card.preprocess),
        inputs=model.facts.get("inputs") or [],
        outputs=model.facts.get("outputs") or [],
        links=schemas.ModelLinks(
            model=at(NAMED, card.name),
            page=at(PAGE, card.name),
            file=at(FILE, card.name),
            job=f"/jobs/{model.job_id}" if model.job_id else None,
        ),
    )
