"""The JSON API of next actions: what to do about a conversion, with its price. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.conversion.access import conversion_of
from app.conversion.action_schemas import ActionAnswer, ActionsAnswer, CandidateAnswer
from app.conversion.api import JOB_ID
from app.conversion.service.quality import reports_of
from app.conversion.service.quality.actions import Action, actions_of
from app.conversion.service.quality.candidates import pareto, read_search
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations

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
