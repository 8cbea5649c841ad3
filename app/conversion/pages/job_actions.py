"""The recommended next action of a job, and how it is carried out."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from app.conversion.access import conversion_of
from app.conversion.errors import ResultNotFound
from app.conversion.model import JobRecord, Status
from app.conversion.options import ToolchainName
from app.conversion.service.predictions import prediction_of
from app.conversion.service.quality import Quality, reports_of
from app.conversion.service.quality.actions import Action, actions_of, candidate_actions
from app.conversion.service.quality.candidates import read_search
from app.conversion.service.reconversion import convert_again, patch_options
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.templates import TemplateContext

SATURATION = "saturation"
"""This action does not raise the quality: it measures how many pictures are enough."""


@dataclass(frozen=True)
class ShownAction:
    """A recommended action, as the page shows it."""

    action: Action
    can_apply: bool
    """False if only the reader can carry it out."""

    @property
    def name(self) -> str:
        """Identifies it among the actions of the job."""
        return action_name(self.action)


def action_name(action: Action) -> str:
    return f"{action.code}:{action.params.get('id', '')}"


def action_context(record: JobRecord, quality: Quality, bie: JsonObject | None) -> TemplateContext:
    """Returns the first action, the following ones, and what else can be done with a good result."""
    shown = [ShownAction(one, _can_apply(record, one)) for one in actions_of(record, bie)]
    is_done = record.status is Status.COMPLETED and "out.nef" in record.artifacts
    has_passed = (quality.verdict is None or quality.verdict.passed) and quality.hidden_loss is None
    is_good = is_done and has_passed and (quality.goal is None or quality.goal.is_reached)
    is_host = record.options.toolchain is ToolchainName.HOST
    return {
        "next_action": shown[0] if shown and not is_good else None,
        "more_actions": shown if is_good else shown[1:],
        "can_deploy": is_done,
        "is_good": is_good,
        "is_host": is_host,
        "conversion_goal": quality.goal,
    }


def apply_action(request: Request, name: str) -> JobRecord:
    """Carries out an action and returns the new job.

    Raises:
        ResultNotFound: The job has no such action (any more).
        ModelmillError: What submitting a job raises.
    """
    conversion = conversion_of(request)
    record = conversion.jobs.get(request.path_params["job_id"], user_of(request))
    if name == SATURATION:
        return convert_again(conversion, record, {"quantization": {"saturation": True}})
    bie = reports_of(conversion, record).bie
    for action in (*actions_of(record, bie), *candidate_actions(record.options, read_search(bie or {}))):
        if action_name(action) == name and action.options_patch:
            promised = prediction_of(action.code, record.job_id, action.snr_db)
            return convert_again(conversion, record, action.options_patch, promised)
    raise ResultNotFound("This job has no such action.", hint="Open its page again.")


def _can_apply(record: JobRecord, action: Action) -> bool:
    return bool(action.options_patch) and patch_options(record.options, action.options_patch) is not None
