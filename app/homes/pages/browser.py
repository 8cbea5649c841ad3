"""The pages of a folder and of a file: what is there, a look into it, and what may be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from app.homes.access import Home, home_of
from app.homes.downloads import download
from app.homes.home_paths import HomePath
from app.homes.model import HOME_FOLDERS, KEPT, TMP, TRASH, TRASHED_FILES, Entry, Kind, removed_at
from app.homes.pages import urls
from app.homes.pages.urls import url_of, with_query
from app.homes.read_only_tree import Sort
from app.homes.schemas import FileQuery, FolderView
from app.kit.errors import ModelmillError
from app.kit.web.http import query
from app.kit.web.templates import TemplateContext, render

PREVIEW_BYTES = 64 * 1024
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".gif", ".tif", ".tiff", ".avif", ".heic", ".heif")
MODELS = (".onnx", ".onnx.zip")
"""A zip of a model and of the files its weights lie in is told from others by its name."""
PICTURE, CONVERT = "/ui/data/picture", "/ui/jobs/from-data"
"""Of conversion, which can look into pictures and take models."""


@dataclass(frozen=True)
class Crumb:
    name: str
    url: str


@dataclass(frozen=True)
class FileRow:
    """An entry of a folder, with the addresses of its pages."""

    entry: Entry
    name: str
    """What it is called, or was before it was removed."""
    removed_at: datetime | None
    """When its user put it into the trash."""
    path: str
    url: str
    download_url: str
    is_ours: bool
    """May it be moved and removed?"""
    is_final: bool
    """Would its removal be for good?"""
    convert_url: str
    """Empty for anything but a model."""

    @property
    def is_folder(self) -> bool:
        return self.entry.kind is Kind.FOLDER

    @property
    def is_file(self) -> bool:
        return self.entry.kind is Kind.FILE


def own(request: Request) -> Response:
    return _show(request, HomePath(_read_inner(request)))


def common(request: Request) -> Response:
    return _show(request, HomePath(_read_inner(request), is_common=True))


def download_file(request: Request) -> Response:
    home = home_of(request)
    return download(request, home, home.locate(query(request, FileQuery).path))


def _read_inner(request: Request) -> str:
    return str(request.path_params.get("path", "")).removesuffix("/")


def _show(request: Request, location: HomePath) -> Response:
    home = home_of(request)
    entry = home.tree(location).info(location.inner)
    if entry.kind is Kind.FOLDER:
        return folder_page(request, home, location)
    if entry.kind is not Kind.FILE:
        return RedirectResponse(
            url_of(HomePath(location.inner.rpartition("/")[0], location.is_common)), status_code=303
        )
    row = row_of(home, location, entry)
    return render(
        request,
        "homes/file.html",
        area="data",
        row=row,
        crumbs=crumbs_of(location),
        location=location,
        **_build_preview(home, location, entry),
    )


def folder_page(
    request: Request, home: Home, location: HomePath, error: ModelmillError | None = None, stored: Sequence[str] = ()
) -> Response:
    """A folder of a home, or of the common one.

    Args:
        location: of the folder.
        error: why something that was to be done here was not.
        stored: names of what was uploaded all the same.
    """
    params = query(request, FolderView) if request.method == "GET" else FolderView()
    page = home.tree(location).browse(location.inner, sort=params.sort, cursor=params.cursor or None)
    rows = [row_of(home, location.below(entry.name), entry) for entry in page.entries]
    return render(
        request,
        "homes/folder.html",
        area="data",
        location=location,
        rows=rows,
        total=page.total,
        crumbs=crumbs_of(location),
        path=home.path_of(location),
        may_write=may_write(location),
        params=params,
        headings=_build_headings(location, params.sort),
        error=error,
        stored=stored,
        next_url=url_of(location, sort=_sort_param(params.sort), cursor=page.next_cursor) if page.next_cursor else "",
        first_url=url_of(location, sort=_sort_param(params.sort)),
        in_trash=not location.is_common and _get_top(location.inner) == TRASH,
        purge_days=home.options.retention.purge_after.days,
        can_undo=_get_top(params.was) in KEPT,
    )


def row_of(home: Home, location: HomePath, entry: Entry) -> FileRow:
    path, is_removed = (
        home.path_of(location),
        not location.is_common and location.inner == f"{TRASHED_FILES}/{entry.name}",
    )
    is_model = entry.kind is Kind.FILE and entry.name.lower().endswith(MODELS)
    return FileRow(
        entry,
        name_before(location.inner) if is_removed else entry.name,
        removed_at(entry.name) if is_removed else None,
        path,
        url_of(location),
        with_query(f"{urls.DATA}/download", path=path),
        is_ours=not location.is_common and location.inner not in HOME_FOLDERS,
        is_final=_get_top(location.inner) in (TRASH, TMP),
        convert_url=with_query(CONVERT, model=path) if is_model else "",
    )


def crumbs_of(location: HomePath) -> list[Crumb]:
    """From the top down, without the home itself and the common folder itself; the last one is where we are."""
    names = location.inner.split("/") if location.inner else []
    return [
        Crumb(name, url_of(HomePath("/".join(names[: place + 1]), location.is_common)))
        for place, name in enumerate(names)
    ]


def may_write(location: HomePath) -> bool:
    return not location.is_common and _get_top(location.inner) in KEPT


def name_before(inner: str) -> str:
    """What a file in the trash was called."""
    name = inner.rpartition("/")[2]
    is_stamped = inner == f"{TRASHED_FILES}/{name}" and removed_at(name) is not None
    return name.partition("-")[2] if is_stamped else name


def _get_top(inner: str) -> str:
    return inner.removeprefix("/").partition("/")[0]


def _sort_param(sort: Sort) -> str | None:
    return None if sort is Sort.NAME else sort.value


def _build_headings(location: HomePath, sort: Sort) -> dict[str, tuple[str, str]]:
    """Column → the link that sorts by it, the other way round when it does already; and how it is sorted now."""
    headings = {}
    for column, first in (("name", Sort.NAME), ("size", Sort.SIZE_BACK), ("modified", Sort.MODIFIED_BACK)):
        is_here = sort.removeprefix("-") == column
        other = Sort(column) if sort.is_back else Sort(f"-{column}")
        state = ("descending" if sort.is_back else "ascending") if is_here else ""
        headings[column] = (url_of(location, sort=(other if is_here else first).value), state)
    return headings


def _build_preview(home: Home, location: HomePath, entry: Entry) -> TemplateContext:
    if entry.name.lower().endswith(PICTURES):
        return {"picture_url": with_query(PICTURE, path=home.path_of(location)), "text": None, "is_cut": False}
    data = b"".join(home.tree(location).read(location.inner, end=PREVIEW_BYTES))
    is_cut = entry.size_bytes > len(data)
    return {"picture_url": "", "text": _as_text(data, is_cut=is_cut), "is_cut": is_cut}


def _as_text(data: bytes, *, is_cut: bool) -> str | None:
    """None for what is not text. A character that the end cuts through is omitted."""
    if b"\0" in data:
        return None
    for spared in range(4 if is_cut else 1):
        try:
            return data[: len(data) - spared].decode()
        except UnicodeDecodeError:
            continue
    return None


ROUTES = [
    Route(urls.FILES, own),
    Route(urls.FILES + "/{path:path}", own),
    Route(urls.COMMON, common),
    Route(urls.COMMON + "/{path:path}", common),
    Route(f"{urls.DATA}/download", download_file),
]
