"""The JSON API of next actions: what to do about a conversion, with its price; and of what a search tried.

OPERATIONS is its table of routes.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.conversion.access import conversion_of
from app.conversion.api import JOB_ID
from app.conversion.schemas import OfView
from app.conversion.service.quality import reports_of
from app.conversion.service.quality.actions import Action, actions_of
from app.conversion.service.quality.candidates import pareto, read_search
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations


class ActionAnswer(OfView):
    code: str
    params: dict[str, Any]
    text: str
    """In English, with its numbers."""
    gain_db: float | None
    """Of SNR at the worst output, against what was built; null: not known."""
    size_delta_bytes: int | None
    latency_delta_ms: float | None
    is_measured: bool
    """Was it tried? Else the gain is an expectation."""
    options_patch: dict[str, Any]
    """A JSON merge patch for the job's options that applies it; empty: nothing to apply by itself."""


class CandidateAnswer(OfView):
    id: int
    name: str
    snr_db: float | None
    """Of the worst output."""
    snr_min_db: float | None
    altered_db: float | None
    """The lower end of what the pictures give from nearer and darker; null where they were not tried."""
    int8_share: float | None
    size_bytes: int | None
    latency_ms: float | None
    drop_percent: float | None
    is_taken: bool
    is_measured: bool
    """Built and run; else simulated."""
    verdict_code: str
    is_on_front: bool
    """Does no other beat it at signal to noise, size and latency?"""
    steps: list[dict[str, Any]]
    """What quantization.steps takes to make it again."""
    options: dict[str, Any]


class ActionsAnswer(BaseModel):
    actions: list[ActionAnswer]
    candidates: list[CandidateAnswer]


OPERATIONS = Operations(JOB_ID)


@OPERATIONS.add(
    "GET",
    "/jobs/{job_id}/actions",
    "What to do next about a conversion, the most worthwhile first, and what its search tried",
    {200: ActionsAnswer},
)
def list_actions(request: Request) -> Response:
    """Empty lists for a job of which nothing is measured yet."""
    conversion = conversion_of(request)
    record = conversion.jobs.get(request.path_params["job_id"], user_of(request))
    bie = reports_of(conversion, record).bie
    search = read_search(bie or {})
    front = {candidate.id for candidate in pareto(search.candidates)} if search else set()
    answer = ActionsAnswer(
        actions=[_action(action) for action in actions_of(record, bie)],
        candidates=[
            CandidateAnswer(**{**vars(candidate), "is_on_front": candidate.id in front})
            for candidate in (search.candidates if search else ())
        ],
    )
    return json_answer(answer)


def _action(action: Action) -> ActionAnswer:
    return ActionAnswer(**vars(action), text=action.text)
