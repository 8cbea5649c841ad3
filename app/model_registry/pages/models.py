"""The list of models, the page of one, and its removal."""

from __future__ import annotations

from typing import Annotated, ClassVar
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.kit.access import read_typed
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import FilterForm, query
from app.kit.web.list_page import ListQuery
from app.kit.web.page_actions import refusal_of, with_form
from app.kit.web.strict import TEXT
from app.kit.web.templates import render
from app.model_registry.access import models_of
from app.model_registry.errors import ModelInUse
from app.model_registry.model import Model, build_shared_name
from app.model_registry.schemas import MAX_CURSOR, MAX_PIN

PAGE_MODELS = 50
AREA = "models"


class ModelListQuery(ListQuery):
    PAGE: ClassVar[str] = "/ui/models"
    cursor: Annotated[str, Field(max_length=MAX_CURSOR, pattern=TEXT)] | None = None
    note: Annotated[str, Field(max_length=20)] = ""


Pin = Annotated[str, Field(min_length=1, max_length=MAX_PIN)]


class NamedPageQuery(FilterForm):
    name: Pin
    note: Annotated[str, Field(max_length=20)] = ""


class NamedForm(BaseModel):
    name: Pin


class TagForm(NamedForm):
    tag: Annotated[str, Field(max_length=64)]
    version: Annotated[int, Field(ge=1, le=10**9)]


class AccessForm(NamedForm):
    allowed: Annotated[str, Field(max_length=10_000)] = ""


class UntagForm(NamedForm):
    tag: Annotated[str, Field(max_length=64)]


def models(request: Request) -> Response:
    params = query(request, ModelListQuery)
    user = user_of(request)
    page, older = models_of(request).page(user, text=params.q or "", cursor=params.cursor, limit=PAGE_MODELS)
    return render(
        request,
        "models/models.html",
        area=AREA,
        query=params,
        models=page,
        older=older,
        shared=models_of(request).access.seen_by(user),
        jobs=_collect_job_names(request, page),
    )


def named(request: Request) -> Response:
    params = query(request, NamedPageQuery)
    models, user = models_of(request), user_of(request)
    model = models.get(user, params.name)
    versions, tags = models.versions(user, model.name)
    return render(
        request,
        "models/model.html",
        area=AREA,
        model=model,
        versions=versions,
        tags=tags,
        note=params.note,
        allowed=models.access.rule(user, model.name).text,
        reference=build_shared_name(user, model.name),
        jobs=_collect_job_names(request, versions),
    )


def ask_delete(request: Request) -> Response:
    models, user, name = models_of(request), user_of(request), query(request, NamedPageQuery).name
    model = models.get(user, name)
    versions, _ = models.versions(user, model.name)
    facts = {"is_whole": name == model.name or len(versions) == 1, "versions": len(versions)}
    refusal = refusal_of(ModelInUse, models.require_unused, user, name)
    return render(request, "models/delete.html", area=AREA, model=model, refusal=refusal, **facts)


@with_form(NamedForm)
def delete(request: Request, fields: NamedForm) -> Response:
    models_of(request).remove(user_of(request), fields.name)
    return see_other("/ui/models?note=deleted")


@with_form(TagForm)
def tag(request: Request, fields: TagForm) -> Response:
    models_of(request).set_tag(user_of(request), fields.name, fields.tag.strip(), fields.version, now=now())
    return _redirect_to(fields.name, "tagged")


@with_form(UntagForm)
def untag(request: Request, fields: UntagForm) -> Response:
    models_of(request).remove_tag(user_of(request), fields.name, fields.tag)
    return _redirect_to(fields.name, "untagged")


@with_form(AccessForm)
def permit(request: Request, fields: AccessForm) -> Response:
    models_of(request).access.permit(user_of(request), fields.name, read_typed(fields.allowed))
    return _redirect_to(fields.name, "permitted", "access")


def _redirect_to(name: str, note: str, part: str = "versions") -> Response:
    return see_other(f"/ui/models/named?{urlencode({'name': name, 'note': note})}#{part}")


def _collect_job_names(request: Request, models: list[Model]) -> dict[str, str]:
    """Returns the names by id of the jobs that made these models and have not expired."""
    ids = {model.job_id for model in models if model.job_id}
    records = conversion_of(request).jobs.several(ids, user_of(request)) if ids else []
    return {record.job_id: record.name for record in records}


ROUTES = [
    Route("/ui/models", models),
    Route("/ui/models/named", named),
    Route("/ui/models/delete", ask_delete),
    Route("/ui/models/delete", delete, methods=["POST"]),
    Route("/ui/models/tag", tag, methods=["POST"]),
    Route("/ui/models/access", permit, methods=["POST"]),
    Route("/ui/models/untag", untag, methods=["POST"]),
]
