"""Starts a conversion from the data home: the page that chooses pictures for a model, and single pictures."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.service.home_inputs import (
    PICTURE_TYPE,
    InputPath,
    copy_inputs,
    is_archive,
    is_sample,
    small_picture,
)
from app.homes.access import Home, home_of
from app.homes.home_paths import HomePath
from app.homes.model import DATASETS, Kind
from app.kit.errors import ModelmillError
from app.kit.web.common_pages import see_other
from app.kit.web.http import query
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render

PAGE = "/ui/jobs/from-data"
PathText = Annotated[str, Field(max_length=4096)]


class FolderQuery(BaseModel):
    """The model and the folder that are shown."""

    model: PathText
    folder: PathText = DATASETS
    """The folder in which pictures are chosen."""


class HomeSelection(BaseModel):
    """The chosen model and pictures."""

    model: PathText
    images: PathText = ""


class PictureQuery(BaseModel):
    """The picture to show."""

    path: PathText


def choose(request: Request) -> Response:
    return _render_page(request, query(request, FolderQuery))


def _render_page(request: Request, choice: FolderQuery, error: ModelmillError | None = None) -> Response:
    home = home_of(request)
    model, location = home.locate(choice.model, field="model"), home.locate(choice.folder, field="folder")
    tree = home.tree(location)
    page = tree.browse(location.inner)
    samples = sum(map(is_sample, page.entries))
    names = location.inner.split("/") if location.inner else []
    ways = [HomePath("/".join(names[: place + 1]), location.is_common) for place in range(len(names))]
    return render(
        request,
        "conversion/from_data.html",
        area="data",
        error=error,
        model=home.path_of(model),
        model_name=model.inner.rpartition("/")[2],
        folder=home.path_of(location),
        folder_name=names[-1] if names else "",
        samples=samples,
        may_have_more=page.next_cursor is not None,
        ways=[(way.inner.rpartition("/")[2], _build_url(home, model, way)) for way in ways],
        is_common=location.is_common,
        folders=[
            (e.name, _build_url(home, model, location.below(e.name))) for e in page.entries if e.kind is Kind.FOLDER
        ],
        archives=[(e.name, home.path_of(location.below(e.name)), e.size_bytes) for e in page.entries if is_archive(e)],
        tops=(
            (False, _build_url(home, model, HomePath(""))),
            (True, _build_url(home, model, HomePath("", is_common=True))),
        ),
    )


def _build_url(home: Home, model: HomePath, folder: HomePath) -> str:
    return f"{PAGE}?{urlencode({'model': home.path_of(model), 'folder': home.path_of(folder)})}"


@with_form(HomeSelection)
def convert(request: Request, choice: HomeSelection) -> Response:
    """Copies the chosen files and opens the form of a new conversion with them."""
    home = home_of(request)
    model = home.locate(choice.model, field="model")
    samples = home.locate(choice.images, field="images") if choice.images else None
    try:
        taken = copy_inputs(
            conversion_of(request).uploads,
            home.user,
            InputPath(home.tree(model), model.inner),
            InputPath(home.tree(samples), samples.inner) if samples else None,
        )
    except ModelmillError as error:
        if error.status >= 500:
            raise
        return _render_page(request, FolderQuery(model=choice.model), error)
    name = taken.model_name.rpartition(".")[0]
    return see_other(f"/ui/jobs/new?{urlencode({**vars(taken), 'name': name})}")


def picture(request: Request) -> Response:
    """Sends a picture of the data home as a small JPEG."""
    home = home_of(request)
    location = home.locate(query(request, PictureQuery).path)
    data = small_picture(conversion_of(request).uploads.intake, home.tree(location), location.inner)
    return Response(data, media_type=PICTURE_TYPE, headers={"Cache-Control": "private, max-age=60"})


ROUTES = [
    Route(PAGE, choose),
    Route(PAGE, form_once(convert), methods=["POST"]),
    Route("/ui/data/picture", picture),
]
