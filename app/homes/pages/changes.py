"""What a user changes in the browser of files: upload, new folder, move, remove, take back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from multipart import MultipartSegment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.homes import schemas
from app.homes.access import Home, home_of
from app.homes.home_paths import HomePath
from app.homes.model import DATASETS, KEPT, MODELS, TMP, TRASHED_FILES, Kind
from app.homes.pages.browser import crumbs_of, folder_page, may_write, name_before, row_of
from app.homes.pages.urls import DATA, url_of, with_query
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.common_pages import see_other
from app.kit.web.forms import multipart_pieces
from app.kit.web.http import query
from app.kit.web.multipart import Piece, plain_name
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render
from app.kit.web.thread_stream import hand_over

UPLOAD_HINT = "Use the form on the page of the folder."


async def upload(request: Request) -> Response:
    """The plain form's files, each streamed to its place. What fails ends it; what was stored before stays."""
    home = await run_in_threadpool(home_of, request)
    folder = request.path_params["path"]
    pieces = multipart_pieces(request, hint=UPLOAD_HINT)
    stored: list[str] = []
    try:
        await _receive(home, folder, pieces, stored)
    except ModelmillError as error:
        return await run_in_threadpool(folder_page, request, home, HomePath(folder), error, stored)
    return see_other(url_of(HomePath(folder), note="uploaded", count=str(len(stored))))


async def _receive(home: Home, folder: str, pieces: AsyncIterator[Piece], stored: list[str]) -> None:
    piece = await anext(pieces, None)
    may_replace = False

    async def content() -> AsyncIterator[bytes]:
        nonlocal piece
        piece = await anext(pieces, None)
        while isinstance(piece, bytes):
            yield piece
            piece = await anext(pieces, None)

    while isinstance(piece, MultipartSegment):
        if piece.name == "replace":
            may_replace = True
        if not piece.filename:  # a plain field, or no file was chosen
            async for _ in content():
                pass
            continue
        name = plain_name(piece.filename)
        write = partial(home.files.write, home.user, f"{folder}/{name}", replace=may_replace, quota=home.quota)
        await hand_over(content(), write)
        stored.append(name)


@with_form(schemas.NameForm)
def make_folder(request: Request, fields: schemas.NameForm) -> Response:
    home = home_of(request)
    parent = home.own(fields.path)
    try:
        home.files.make_folder(home.user, f"{parent}/{fields.name.strip()}", quota=home.quota)
    except ModelmillError as error:
        return folder_page(request, home, HomePath(parent), error)
    return see_other(url_of(HomePath(parent), note="made"))


def move_page(request: Request, error: ModelmillError | None = None, sent: schemas.MoveForm | None = None) -> Response:
    """Choose where to: links lead from folder to folder, and the name may be another one.

    error, sent: why the form was refused, and what it said.
    """
    home = home_of(request)
    params = query(request, schemas.MoveQuery) if request.method == "GET" else None
    source = home.own(params.path if params else sent.source if sent else "")
    folder = _choose_target(home, source, params.to if params else sent.folder if sent else "")
    tree = home.files.home(home.user)
    page = tree.browse(folder) if folder else None
    below = [entry for entry in page.entries if entry.kind is Kind.FOLDER] if page else []
    return render(
        request,
        "homes/move.html",
        area="data",
        error=error,
        row=row_of(home, HomePath(source), tree.info(source)),
        source=source,
        folder=folder,
        crumbs=crumbs_of(HomePath(folder)),
        name=sent.name if sent else name_before(source),
        here=f"{DATA}/move",
        folders=[(entry.name, _choose(source, entry.path)) for entry in below],
        tops=[(name, _choose(source, name)) for name in KEPT],
        ways=[
            (crumb.name, _choose(source, "/".join(folder.split("/")[: place + 1])))
            for place, crumb in enumerate(crumbs_of(HomePath(folder)))
        ],
        back=url_of(HomePath(source.rpartition("/")[0])),
    )


def _choose_target(home: Home, source: str, to: str) -> str:
    """Where it would go: as asked, else where it is, or to what is kept when it is a job's or in the trash."""
    if to:
        return home.own(to)
    here = source.rpartition("/")[0]
    if may_write(HomePath(here)):
        return here
    return DATASETS if source.startswith((f"{TRASHED_FILES}/", f"{TMP}/")) else MODELS


def _choose(source: str, folder: str) -> str:
    return with_query(f"{DATA}/move", path=source, to=folder)


@with_form(schemas.MoveForm)
def move(request: Request, fields: schemas.MoveForm) -> Response:
    home = home_of(request)
    source, folder = home.own(fields.source, field="source"), home.own(fields.folder, field="target")
    try:
        home.files.move(home.user, source, f"{folder}/{fields.name.strip()}")
    except ModelmillError as error:
        return move_page(request, error, fields)
    return see_other(url_of(HomePath(folder), note="moved"))


def confirm_delete(request: Request) -> Response:
    """Of what is in the trash: it goes for good, which is said before it happens."""
    home = home_of(request)
    inner = home.own(query(request, schemas.FileQuery).path)
    row = row_of(home, HomePath(inner), home.files.info(home.user, inner))
    back = url_of(HomePath(inner.rpartition("/")[0]))
    return render(request, "homes/delete.html", area="data", row=row, name=name_before(inner), inner=inner, back=back)


@with_form(schemas.PathForm)
def delete(request: Request, fields: schemas.PathForm) -> Response:
    home = home_of(request)
    inner = home.own(fields.path)
    trashed = home.files.remove(home.user, inner, now=now())
    note = {"note": "trashed", "at": trashed, "was": inner} if trashed else {"note": "gone"}
    return see_other(url_of(HomePath(inner.rpartition("/")[0]), **note))


@with_form(schemas.RestoreForm)
def restore(request: Request, fields: schemas.RestoreForm) -> Response:
    """Undo a removal: back to where it was."""
    home = home_of(request)
    source, target = home.own(fields.source, field="source"), home.own(fields.target, field="target")
    folder, _, name = target.rpartition("/")
    try:
        home.files.move(home.user, source, target)
    except ModelmillError as error:
        again = schemas.MoveForm(source=source, folder=folder, name=name)
        return move_page(request, error, again)
    return see_other(url_of(HomePath(folder), note="restored"))


ROUTES = [
    Route(DATA + "/upload/{path:path}", upload, methods=["POST"]),
    Route(f"{DATA}/folders", make_folder, methods=["POST"]),
    Route(f"{DATA}/move", move_page),
    Route(f"{DATA}/move", move, methods=["POST"]),
    Route(f"{DATA}/delete", confirm_delete),
    Route(f"{DATA}/delete", delete, methods=["POST"]),
    Route(f"{DATA}/restore", restore, methods=["POST"]),
]
