"""What can be done with a service: change its YAML, delete it. By plain forms."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import joint_of
from app.joint_inference.documents import MAX_BYTES, parse_document
from app.joint_inference.errors import NoSuchRollout, ServiceChanged
from app.joint_inference.model.resource import Service
from app.joint_inference.pages.new import text_problems
from app.joint_inference.pages.service import service_of
from app.joint_inference.pages.service_list import url_of
from app.joint_inference.pages.view_models import condition_of
from app.joint_inference.pages.yaml_text import editable, to_yaml
from app.joint_inference.schemas import RolloutChange
from app.joint_inference.validation import validate, warnings_of
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.page_actions import with_fields, with_form
from app.kit.web.templates import render


def edit(request: Request) -> Response:
    service = service_of(request)
    return _edit_page(request, service, to_yaml(editable(service)), generation=service.generation)


@with_fields(MAX_BYTES, "A service")
def change(request: Request, sent: Mapping[str, str]) -> Response:
    """Changes a service. Nothing that was typed is lost; if somebody else changed it in the meantime, the page says so
    once before it is overwritten."""
    service, text = service_of(request), sent.get("text", "")
    seen = sent.get("generation", "")
    shown: JsonObject = {"generation": service.generation}
    try:
        if seen != str(service.generation):
            raise ServiceChanged(
                "This service was changed meanwhile.", hint="Send it again to put your text in the place of that."
            )
        resource = parse_document(text)
        shown["left_out"] = warnings_of(resource)
        fit = validate(resource, namespace=service.namespace)
        joint_of(request).services.replace(user_of(request), service.namespace, service.name, fit, now=now())
    except ModelmillError as error:
        return _edit_page(request, service, text, status=error.status, problem=text_problems(error)[""], **shown)
    return see_other(url_of(service.namespace, service.name, "?note=changed"))


def _edit_page(
    request: Request,
    service: Service,
    text: str,
    *,
    status: int = 200,
    problem: str | ModelmillError = "",
    generation: int,
    left_out: list[str] | None = None,
) -> Response:
    return render(
        request,
        "joint_inference/edit.html",
        status,
        area="services",
        service=service,
        text=text,
        problem=problem,
        url=url_of(service.namespace, service.name),
        generation=generation,
        left_out=left_out or [],
    )


@with_form(RolloutChange, guard=service_of)
def change_rollout(request: Request, fields: RolloutChange) -> Response:
    service, act = service_of(request), joint_of(request).services.act_on_rollout
    with suppress(NoSuchRollout):  # it has advanced in the meantime, as its page shows
        act(service.owner, service.namespace, service.name, fields.action, now=now())
    return see_other(url_of(service.namespace, service.name) + "#rollout-title")


def ask_delete(request: Request) -> Response:
    service = service_of(request)
    return render(
        request,
        "joint_inference/delete.html",
        area="services",
        service=service,
        condition=condition_of(service),
        url=url_of(service.namespace, service.name),
    )


def delete(request: Request) -> Response:
    """Deletes a service. Its workers are ended first, which its page shows meanwhile."""
    path = request.path_params
    services = joint_of(request).services
    services.delete(user_of(request), path["namespace"], path["name"], now=now())
    return see_other("/ui/services?note=deleted")


ROUTES = [
    Route("/ui/services/{namespace}/{name}/edit", edit),
    Route("/ui/services/{namespace}/{name}/edit", change, methods=["POST"]),
    Route("/ui/services/{namespace}/{name}/rollout", change_rollout, methods=["POST"]),
    Route("/ui/services/{namespace}/{name}/delete", ask_delete),
    Route("/ui/services/{namespace}/{name}/delete", delete, methods=["POST"]),
]
