"""The page of a new service: a form that writes the YAML, or the YAML itself; and the YAML of an existing one.

Both ways are one form with one text behind it: what is previewed is what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import joint_of
from app.joint_inference.documents import MAX_BYTES, parse_document
from app.joint_inference.hard_examples import load_algorithms
from app.joint_inference.pages import new_form
from app.joint_inference.pages.new_form import Values
from app.joint_inference.pages.service_list import url_of
from app.joint_inference.pages.yaml_text import to_yaml
from app.joint_inference.sedna import ignored_parameters
from app.joint_inference.validation import validate, warnings_of
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.editor import FORM, Draft, Problems, action_of, as_form, problems_of_text, with_retry
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import TemplateContext, render
from app.model_registry.access import models_of
from app.nodes.access import nodes_of
from app.nodes.model import Side

YAML = "yaml"
SUGGESTED = 200
"""Number of models that a field suggests."""


@dataclass(frozen=True)
class ServiceDraft(Draft[Values]):
    resource: Any = None
    """The resource in the text; None if it is not one."""
    left_out: tuple[str, ...] = ()
    """Fields of the text that are not known."""

    @property
    def ignored(self) -> list[str]:
        """Returns sentences about parameters that nothing reads."""
        return ignored_parameters(self.resource["spec"]) if self.resource else []


def new(request: Request) -> Response:
    """Renders the page. ?mode is form (default) or yaml; ?edge_model, ?cloud_model and other fields are filled in."""
    values = new_form.read_sent_values(request.query_params)
    resource, problems = new_form.resource_of(values)
    mode = YAML if request.query_params.get("mode") == YAML else FORM
    return _render_page(request, ServiceDraft(mode, values, to_yaml(resource), resource=None if problems else resource))


@with_fields(MAX_BYTES, "A service")
def preview(request: Request, sent: Mapping[str, str]) -> Response:
    """Sends the YAML as it would be submitted, and its problems, while it is being written."""
    draft = _read_draft(sent)
    return render(request, "joint_inference/_preview.html", draft=draft, **_build_words(draft))


def _read_draft(sent: Mapping[str, str]) -> ServiceDraft:
    values = new_form.read_sent_values(sent)
    if sent.get("mode") != YAML:
        resource, problems = new_form.resource_of(values)
        return ServiceDraft(FORM, values, to_yaml(resource), problems, resource=None if problems else resource)
    text = sent.get("text", "")
    try:
        document = parse_document(text)
        left_out = tuple(warnings_of(document))
        return ServiceDraft(YAML, values, text, resource=validate(document), left_out=left_out)
    except ModelmillError as error:
        return ServiceDraft(YAML, values, text, text_problems(error), error)


def text_problems(error: ModelmillError) -> Problems:
    return problems_of_text(error, at="path", problem="message")


@with_fields(MAX_BYTES, "A service")
def create(request: Request, sent: Mapping[str, str]) -> Response:
    draft = _read_draft(sent)
    action, argument = action_of(sent)
    if action == "mode":
        return _render_page(request, _switch(draft, argument))
    if action == "preview" or draft.resource is None:
        return _render_page(request, draft, 422 if action == "submit" else 200)
    try:
        service = joint_of(request).services.create(user_of(request), draft.resource, now=now())
    except ModelmillError as error:
        problems = text_problems(error) if draft.mode == YAML else new_form.problems_of(error)
        return _render_page(request, replace(draft, error=error, problems=problems), error.status)
    return see_other(url_of(service.namespace, service.name, "?note=created"))


def _switch(draft: ServiceDraft, mode: str) -> ServiceDraft:
    """Converts the service to the other mode; stays in this one if something would be lost."""
    if mode == YAML:
        return replace(draft, mode=YAML, problems={})
    values = new_form.values_of(draft.resource) if draft.resource is not None else None
    return as_form(draft, values, is_document=draft.resource is not None)


def _render_page(request: Request, draft: ServiceDraft, status: int = 200) -> Response:
    nodes = nodes_of(request).access.seen_by(user_of(request))
    page = render(
        request,
        "joint_inference/new.html",
        status,
        area="services",
        draft=draft,
        edge_nodes=[node for node in nodes if node.side in (Side.EDGE, Side.HOST)],
        cloud_nodes=[node for node in nodes if node.side in (Side.CLOUD, Side.HOST)],
        models=models_of(request).suggestions(user_of(request), most=SUGGESTED),
        **_build_words(draft),
    )
    return with_retry(page, draft)


def _build_words(draft: ServiceDraft) -> TemplateContext:
    return {
        "values": draft.values,
        "problems": draft.problems,
        "algorithms": [entry for entry in load_algorithms().values() if entry.algorithm is not None],
    }


ROUTES = [
    Route("/ui/services/new", new),
    Route("/ui/services/new", form_once(create), methods=["POST"]),
    Route("/ui/services/new/preview", preview, methods=["POST"]),
]
