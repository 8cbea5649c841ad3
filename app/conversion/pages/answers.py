"""Float and int8 answers drawn over the worst pictures of a job: the fragment that makes them, and the pictures."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.model import JobRecord
from app.conversion.service import answers as service
from app.conversion.service.quality import Quality
from app.kit.errors import NotFound
from app.kit.web.auth import user_of
from app.kit.web.templates import TemplateContext

FOR_EVER = "private, max-age=31536000, immutable"


def answers_context(request: Request, record: JobRecord, quality: Quality, *, make: bool = False) -> TemplateContext:
    """Returns what the templates of the pictures need.

    Args:
        make: Make the answers now if they do not exist yet; this can take most of a minute.
    """
    conversion = conversion_of(request)
    can = service.may_answer(record, quality)
    matching = service.answers(conversion, record, quality) if make else service.load_answers(conversion, record)
    by_place = {one.place: one for one in matching.pictures} if matching else {}
    return {"answers": matching, "answered": by_place, "can_answer": can}


def picture(request: Request) -> Response:
    """Sends a picture without its answers, which the page draws over it."""
    conversion = conversion_of(request)
    job = conversion.jobs.get(request.path_params["job_id"], user_of(request))
    data = service.picture(conversion, job, request.path_params["place"])
    if data is None:
        raise NotFound("This job has no such picture.", hint="Open the tab Pictures of the job.")
    return Response(data, media_type=service.MEDIA_TYPE, headers={"Cache-Control": FOR_EVER})


ROUTES = [Route("/ui/jobs/{job_id}/answers/{place:int}", picture)]
