"""The pages that belong to no capability: sign-in, and the choice of a language."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from app.kit.web.http import form
from app.kit.web.languages import COOKIE
from app.kit.web.navigation import Area, NavigationEntry

YEAR_S = 365 * 86400
HOME = "/ui/jobs"


class LanguageChoice(BaseModel):
    lang: Literal["en", "zh-Hant"]
    next: str = HOME


def home(_: Request) -> Response:
    return RedirectResponse(HOME, status_code=307)


async def choose_language(request: Request) -> Response:
    choice = await form(request, LanguageChoice)
    response = see_other(choice.next)
    response.set_cookie(COOKIE, choice.lang, max_age=YEAR_S, samesite="lax", httponly=True)
    return response


def see_other(path: str) -> Response:
    """Redirects with GET to one of our paths; any other target leads to the home page."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    return RedirectResponse(path if is_ours else HOME, status_code=303)


NAVIGATION = (NavigationEntry(Area.WORKSPACE, 90, "API description", "/ui/api"),)
ROUTES = [
    Route("/", home),
    Route("/ui", home),
    Route("/ui/lang", choose_language, methods=["POST"]),
]
