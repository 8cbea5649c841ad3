"""Pages and fragments: Jinja2 with StrictUndefined and autoescape, in the language of the request.

A template finds `_`, `ngettext`, `lang`, `languages`, `static`, `icon`, `form_key`, `version`, `current_path`, `now`,
`caller` (none before the user is known), `features`, `menu`, and the filters of `app.kit.web.filters` and
`app.kit.web.coded_texts`. Templates make no decisions that belong to a service.
"""

from __future__ import annotations

import gzip
from functools import cache, partial
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.files import data_folder
from app.kit.web import coded_texts, filters, written_texts
from app.kit.web.languages import ENGLISH, NAMES, language_of, locale_of, translations
from app.kit.web.navigation import menu_for
from app.kit.web.public_address import find_reached_url
from app.kit.web.state import features_of
from app.kit.web.static import static_url

TemplateContext = dict[str, Any]
"""What a template may name, by name."""
FOLDER = data_folder("templates")
VARY = "Cookie, Accept-Language, Accept-Encoding"
GZIP_LEVEL, GZIP_LEAST_BYTES = 5, 1024
"""A job's page of 65 kB becomes 10 kB in less than a millisecond; higher levels gain little."""


def render(request: Request, template: str, status_code: int | None = None, **context: Any) -> HTMLResponse:
    """Renders the template. Its language follows the request, so the response varies by language.

    Args:
        request: the request.
        template: its name.
        status_code: default: that of the context's `error`, else 200.
        context: what the template is given.
    """
    if status_code is None:
        error = context.get("error")
        status_code = error.status if isinstance(error, ModelmillError) else 200
    language = language_of(request)
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    caller, menu = getattr(request.state, "caller", None), partial(menu_for, request)
    frame = {
        "caller": caller,
        "features": features_of(request),
        "menu": menu,
        "own_url": partial(find_reached_url, request),
    }
    text = environment(language).get_template(template).render(current_path=path, now=now(), **frame, **context)
    headers = {"Content-Language": language, "Vary": VARY, "Cache-Control": "no-store"}
    body = text.encode()
    if _is_compressed(request, body):
        body, headers["Content-Encoding"] = gzip.compress(body, GZIP_LEVEL, mtime=0), "gzip"
    return HTMLResponse(body, status_code=status_code, headers=headers)


def _is_compressed(request: Request, body: bytes) -> bool:
    """Responses to POST are not compressed: only these show tokens, passwords and keys, and data compressed together
    with an attacker's text can be guessed by its length (BREACH)."""
    is_asked = request.method in ("GET", "HEAD") and len(body) >= GZIP_LEAST_BYTES
    return is_asked and "gzip" in request.headers.get("accept-encoding", "")


def icon(name: str) -> Markup:
    """A symbol of static/icons.svg. Screen readers skip it: the text beside it says the same."""
    svg = Markup('<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><use href="{}#{}"></use></svg>')
    return svg.format(static_url("icons.svg"), name)


def form_key() -> str:
    """A one-time key for the action of a form: see idempotency.form_once."""
    return uuid4().hex


@cache
def environment(language: str) -> Environment:
    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
        auto_reload=True,
    )
    texts = translations(language)
    templates.install_gettext_translations(texts, newstyle=True)  # type: ignore[attr-defined]  # added by the extension
    templates.globals.update(lang=language, languages=NAMES, static=static_url, icon=icon, version=version("modelmill"))
    templates.globals.update(form_key=form_key)
    templates.filters.update(filters.filters(texts, locale_of(language)))
    by_form = written_texts.filters(language)
    templates.filters.update(by_form)
    templates.filters.update(coded_texts.filters(texts, by_form["written"], is_english=language == ENGLISH))
    return templates
