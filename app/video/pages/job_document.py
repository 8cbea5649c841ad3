"""A new job as its user writes it: the requirement's body as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from app.kit.text.untrusted_json import UnreadableJson, read_json
from app.video.model.job import Mode, RestartPolicy
from app.video.service import Submission

Chosen = TypeVar("Chosen", RestartPolicy, Mode)
MAX_JSON = 200_000


def submission_of(body: Mapping[str, Any]) -> Submission:
    """Reads the requirement's body.

    Raises:
        ValueError: It has another form; a sentence says where.
    """
    known = {"node_addr", "video_id", "dag", "user_constraint", "policy", "restart_policy", "realtime", "mode", "name"}
    strange = sorted(set(body) - known)
    if strange:
        raise ValueError(f"{strange[0]}: there is no such field; known are {', '.join(sorted(known))}.")
    missing = [name for name in ("node_addr", "video_id", "dag") if body.get(name) in (None, "")]
    if missing:
        raise ValueError(f"{missing[0]}: this is needed.")
    if not isinstance(body.get("realtime", True), bool):
        raise ValueError("realtime: true or false.")
    return Submission(
        str(body["node_addr"]),
        str(body["video_id"]),
        body["dag"],
        body.get("user_constraint"),
        str(body.get("policy") or ""),
        _one_of(RestartPolicy, body, "restart_policy", RestartPolicy.NEVER) if body.get("restart_policy") else None,
        body.get("realtime", True),
        _one_of(Mode, body, "mode", Mode.RUN),
        name=str(body.get("name") or ""),
    )


def _one_of(kind: type[Chosen], body: Mapping[str, Any], name: str, default: Chosen) -> Chosen:
    try:
        return kind(body.get(name) or default)
    except ValueError:
        raise ValueError(f"{name}: one of {', '.join(one.value for one in kind)}.") from None


def parse_body(text: str) -> Mapping[str, Any]:
    """Reads JSON.

    Raises:
        ValueError: It is not a job; a sentence says where.
    """
    if len(text) > MAX_JSON:
        raise ValueError(f"A job may have {MAX_JSON} characters.")
    try:
        body = read_json(text)
    except UnreadableJson as error:
        problem = str(error)
        raise ValueError(f"{problem[0].upper()}{problem[1:]}.") from None
    if not isinstance(body, dict):
        raise ValueError("A job is a JSON object: { … }.")
    return body


def to_text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, indent=2, ensure_ascii=False)
