"""The list of models, the page of one, and its removal."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import FilterForm, form, query
from app.kit.web.list_page import ListQuery
from app.kit.web.templates import render
from app.model_registry.access import models_of
from app.model_registry.model import Model
from app.model_registry.schemas import MAX_CURSOR, TEXT, Name

PAGE_MODELS = 50
AREA = "models"


class ModelListQuery(ListQuery):
    PAGE: ClassVar[str] = "/ui/models"
    q: Annotated[str, Field(max_length=200, pattern=TEXT)] | None = None
    cursor: Annotated[str, Field(max_length=MAX_CURSOR, pattern=TEXT)] | None = None
    note: Annotated[str, Field(max_length=20)] = ""


class NamedPageQuery(FilterForm):
    name: Name
    note: Annotated[str, Field(max_length=20)] = ""


class NamedForm(BaseModel):
    name: Name


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
        jobs=_job_names(request, page),
    )


def named(request: Request) -> Response:
    params = query(request, NamedPageQuery)
    model = models_of(request).get(user_of(request), params.name)
    return render(
        request, "models/model.html", area=AREA, model=model, note=params.note, jobs=_job_names(request, [model])
    )


def ask_delete(request: Request) -> Response:
    model = models_of(request).get(user_of(request), query(request, NamedPageQuery).name)
    return render(request, "models/delete.html", area=AREA, model=model)


async def delete(request: Request) -> Response:
    fields = await form(request, NamedForm)
    await run_in_threadpool(models_of(request).remove, user_of(request), fields.name)
    return see_other("/ui/models?note=deleted")


def _job_names(request: Request, models: list[Model]) -> dict[str, str]:
    """Names of the jobs that these are from, by id, where the job has not expired."""
    ids = {model.job_id for model in models if model.job_id}
    records = conversion_of(request).jobs.several(ids, user_of(request)) if ids else []
    return {record.job_id: record.name for record in records}


ROUTES = [
    Route("/ui/models", models),
    Route("/ui/models/named", named),
    Route("/ui/models/delete", ask_delete),
    Route("/ui/models/delete", delete, methods=["POST"]),
]
