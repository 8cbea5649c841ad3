"""The JSON API of next actions: what to do about a conversion, with its price; of what a search tried; and of
changes of jobs that exist.

OPERATIONS is its table of routes.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.conversion import schemas
from app.conversion.access import conversion_of
from app.conversion.api import JOB_ID, job_response
from app.conversion.options import KneronOptions, QuantizationStep
from app.conversion.schemas import OfView
from app.conversion.service.quality import reports_of
from app.conversion.service.quality.actions import actions_of
from app.conversion.service.quality.candidates import pareto, read_search
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.described_type import DescribedType
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations


class ActionAnswer(OfView):
    code: str
    params: JsonObject
    text: str
    """The action in English, with its numbers."""
    gain_db: float | None
    """Gain of SNR at the worst output over the current result, in dB; null: not known."""
    size_delta_bytes: int | None
    latency_delta_ms: float | None
    is_measured: bool
    """Whether the action was tried; otherwise the gain is an estimate."""
    options_patch: JsonObject
    """A JSON merge patch of the options of the job that applies the action; empty: it cannot be applied
    automatically."""


class CandidateAnswer(OfView):
    id: int
    name: str
    snr_db: float | None
    """SNR of the worst output, in dB."""
    expected_db: float | None
    """What was predicted of it before the candidate was built, in dB; null: nothing was predicted."""
    snr_min_db: float | None
    altered_db: float | None
    """Lower end of the SNR on enlarged and darkened pictures, in dB; null: not tried."""
    int8_share: float | None
    size_bytes: int | None
    latency_ms: float | None
    drop_percent: float | None
    is_taken: bool
    is_measured: bool
    """Whether it was built and run; otherwise it was simulated."""
    verdict_code: str
    is_on_front: bool
    """Whether no other candidate is better in SNR, size and latency together."""
    is_on_task_front: bool
    """Whether no other candidate is better in task loss, size and latency together; false if the loss was not
    measured."""
    steps: Annotated[list[JsonObject], DescribedType(list[QuantizationStep])]
    """Value of quantization.steps that builds this candidate again."""
    options: Annotated[JsonObject, DescribedType(KneronOptions)]
    """Values of kneron in the options that build this candidate again; empty for the toolchain host."""


class ActionsAnswer(BaseModel):
    actions: list[ActionAnswer]
    candidates: list[CandidateAnswer]


OPERATIONS = Operations(JOB_ID)


@OPERATIONS.get(
    "/jobs/{job_id}/actions",
    "List the next actions for a conversion, the best one first, and the candidates of its search",
    ActionsAnswer,
)
def list_actions(request: Request, job_id: str) -> Response:
    """Empty lists for a job of which nothing is measured yet."""
    conversion = conversion_of(request)
    record = conversion.jobs.get(job_id, user_of(request))
    bie = reports_of(conversion, record).bie
    search = read_search(bie or {})
    tried = search.candidates if search else ()
    front, task_front = {one.id for one in pareto(tried, "snr")}, {one.id for one in pareto(tried, "task")}
    answer = ActionsAnswer(
        actions=[ActionAnswer(**vars(one), text=one.text) for one in actions_of(record, bie)],
        candidates=[
            CandidateAnswer(
                **vars(candidate), is_on_front=candidate.id in front, is_on_task_front=candidate.id in task_front
            )
            for candidate in tried
        ],
    )
    return json_answer(answer)


@OPERATIONS.patch("/jobs/{job_id}", "Change the name, tags or notes of a job, or keep its files", schemas.JobAnswer)
def change_job(request: Request, job_id: str, body: schemas.JobChange) -> Response:
    conversion, user = conversion_of(request), user_of(request)
    conversion.jobs.get(job_id, user)  # one that only the archive has is changed there
    return job_response(conversion, conversion.edits.change(job_id, user, **body.model_dump(exclude_none=True)))


@OPERATIONS.post(
    "/jobs/bulk",
    "Cancel, delete, tag or keep many jobs, also of the archive; a failure for one does not affect the others",
    schemas.BulkAnswer,
)
def change_jobs(request: Request, body: schemas.BulkChange) -> Response:
    edits, user = conversion_of(request).edits, user_of(request)
    result = edits.each(body.verb, body.job_ids, user, add=body.add_tags, remove=body.remove_tags)
    problems = [{"job_id": job_id, **error.to_dict()} for job_id, error in result.problems.items()]
    return json_answer(schemas.BulkAnswer.model_validate({"done": list(result.done), "problems": problems}))
