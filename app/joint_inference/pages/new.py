"""The page of a new service: by a form that writes the YAML, or as YAML; and the YAML of one that is there.

Both ways are one form with one text behind it: what is previewed is what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import joint_of
from app.joint_inference.hard_examples import known
from app.joint_inference.pages import new_form
from app.joint_inference.pages.forms import sent_texts
from app.joint_inference.pages.new_form import Problems, Values
from app.joint_inference.pages.service_list import url_of
from app.joint_inference.pages.yaml_text import to_yaml
from app.joint_inference.spec_warnings import ignored_parameters
from app.joint_inference.validation import parse_document, validated, warnings_of
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import retry_after
from app.kit.web.templates import render
from app.model_registry.access import models_of
from app.nodes.access import nodes_of
from app.nodes.model import Side

YAML, FORM = "yaml", "form"
SUGGESTED = 200
"""Models that a field offers."""


@dataclass(frozen=True)
class Draft:
    """What the page holds. text: the YAML, whichever way it came. resource: what it means, None if it is none.

    problems: by field of the form, "" for the rest. left_out: fields that nothing here knows. is_foreign: the text says
    something for which the form has no field.
    """

    mode: str
    values: Values
    text: str
    resource: Any = None
    problems: Problems = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    error: ModelmillError | None = None
    is_foreign: bool = False

    @property
    def ignored(self) -> list[str]:
        """Sentences about parameters that nothing reads."""
        return ignored_parameters(self.resource["spec"]) if self.resource else []


def new(request: Request) -> Response:
    """?mode: form (the first), yaml. ?edge_model, ?cloud_model and the other fields: filled in already."""
    values = new_form.merged(request.query_params)
    resource, problems = new_form.resource_of(values)
    mode = YAML if request.query_params.get("mode") == YAML else FORM
    draft = Draft(mode, values, to_yaml(resource), None if problems else resource)
    return _page(request, draft)


async def create(request: Request) -> Response:
    sent = await sent_texts(request)
    return await run_in_threadpool(_create, request, sent)


async def preview(request: Request) -> Response:
    """The YAML as it would be sent, and what is wrong with it: while it is being written."""
    draft = drafted(await sent_texts(request))
    return await run_in_threadpool(
        lambda: render(request, "joint_inference/_preview.html", draft=draft, **_words(draft))
    )


def drafted(sent: Mapping[str, str]) -> Draft:
    values = new_form.merged(sent)
    if sent.get("mode") != YAML:
        resource, problems = new_form.resource_of(values)
        return Draft(FORM, values, to_yaml(resource), None if problems else resource, problems)
    text = sent.get("text", "")
    try:
        found = parse_document(text)
        return Draft(YAML, values, text, validated(found), {}, tuple(warnings_of(found)))
    except ModelmillError as error:
        return Draft(YAML, values, text, None, as_text(error), (), error)


def as_text(error: ModelmillError) -> Problems:
    """All of it beside the text, which has no other fields."""
    listed = [f"{one['path']}: {one['message']}" for one in error.detail.get("problems", ())]
    return {"": "\n".join(listed) or " ".join(part for part in (error.message, error.hint) if part)}


def _create(request: Request, sent: Mapping[str, str]) -> Response:
    draft = drafted(sent)
    action, _, what = sent.get("action", "submit").partition(":")
    if action == "mode":
        return _page(request, _switched(draft, what))
    if action == "preview" or draft.resource is None:
        return _page(request, draft, 422 if action == "submit" else 200)
    try:
        made = joint_of(request).services.create(user_of(request), draft.resource, now=now())
    except ModelmillError as error:
        problems = as_text(error) if draft.mode == YAML else new_form.problems_of(error)
        return _page(request, replace(draft, problems=problems, error=error), error.status)
    return see_other(url_of(made.namespace, made.name, "?note=created"))


def _switched(draft: Draft, mode: str) -> Draft:
    """The same service the other way; stays where it is if that would lose something."""
    if mode == YAML:
        return replace(draft, mode=YAML, problems={})
    values = new_form.values_of(draft.resource) if draft.resource is not None else None
    if values is None:
        return replace(draft, is_foreign=draft.resource is not None)
    return replace(draft, mode=FORM, values=values, problems={})


def _page(request: Request, draft: Draft, status: int = 200) -> Response:
    nodes = nodes_of(request).seen_by(user_of(request))
    models, _ = models_of(request).page(user_of(request), limit=SUGGESTED)
    response = render(
        request,
        "joint_inference/new.html",
        status,
        area="services",
        draft=draft,
        edge_nodes=[node for node in nodes if node.side in (Side.EDGE, Side.HOST)],
        cloud_nodes=[node for node in nodes if node.side in (Side.CLOUD, Side.HOST)],
        models=[model.name for model in models],
        **_words(draft),
    )
    response.headers.update(retry_after(draft.error) if draft.error else {})
    return response


def _words(draft: Draft) -> dict[str, Any]:
    return {
        "values": draft.values,
        "problems": draft.problems,
        "algorithms": [entry for entry in known().values() if entry.algorithm is not None],
    }


ROUTES = [
    Route("/ui/services/new", new),
    Route("/ui/services/new", create, methods=["POST"]),
    Route("/ui/services/new/preview", preview, methods=["POST"]),
]
