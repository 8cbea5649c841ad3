"""The administrators' page of the environments that tasks run in: the list, and one to be written."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.spec import MAX_SPEC_BYTES

PAGE = "/ui/admin/environments"
EXAMPLE = """\
description: Transformers of this week
pip: [transformers==4.57.1]
env: {HF_HUB_OFFLINE: "0"}
secrets: {HF_TOKEN: hugging-face}
max_gpus_per_task: 8
"""


def environments(
    request: Request, error: ModelmillError | None = None, name: str | None = None, text: str | None = None
) -> Response:
    """?name: the one that the form shows.

    Args:
        error: why what the form sent was not kept.
        name: as it was sent.
        text: as it was sent.
    """
    every = training_of(request).tasks.environments.all()
    if name is None:
        name = request.query_params.get("name", "")
        text = next((one.text for one in every if one.name == name), EXAMPLE)
    return render(
        request,
        "training/environments.html",
        area="environments",
        environments=every,
        name=name,
        text=text,
        error=error,
        note=request.query_params.get("note", ""),
    )


@with_fields(MAX_SPEC_BYTES, "An environment")
def put(request: Request, sent: dict[str, str]) -> Response:
    name, text = sent.get("name", "").strip(), sent.get("text", "")
    body = text.encode()
    try:
        training_of(request).tasks.environments.put(name, body, by=user_of(request), now=now())
    except ModelmillError as error:
        return environments(request, error, name, text)
    return see_other(f"{PAGE}?note=written")


def delete(request: Request) -> Response:
    try:
        training_of(request).tasks.environments.delete(request.path_params["environment"], by=user_of(request))
    except ModelmillError as error:
        return environments(request, error, "", EXAMPLE)
    return see_other(f"{PAGE}?note=deleted")


ROUTES = [
    Route(PAGE, environments),
    Route(PAGE, put, methods=["POST"]),
    Route(f"{PAGE}/{{environment}}/delete", delete, methods=["POST"]),
]
