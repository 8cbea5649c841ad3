"""The language of a response, and the texts of that language.

Texts are gettext's: the English text is the key. Every *.po in app/locale/<language>/ is read at start and merged, so a
catalog is plain text in the repository, without a build step.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path

from babel import Locale, negotiate_locale
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from starlette.requests import Request

LOCALES = Path(__file__).parents[2] / "locale"
COOKIE = "lang"
ENGLISH, CHINESE = "en", "zh-Hant"
NAMES = {ENGLISH: "English", CHINESE: "繁體中文"}
"""The languages of the pages, by BCP 47 tag, with their own names."""


def language_of(request: Request) -> str:
    """The reader's choice, else the browser's preferred language, else English."""
    chosen = request.cookies.get(COOKIE)
    return chosen if chosen in NAMES else choose_language(request.headers.get("accept-language", ""))


def choose_language(accept_language: str) -> str:
    """Returns the best of our languages for an Accept-Language header. Any Chinese gets ours."""
    weighted = sorted((_parse_weight(part) for part in accept_language.split(",") if part.strip()), reverse=True)
    tags = ["zh-Hant" if tag.lower().startswith("zh") else tag for weight, tag in weighted if weight > 0]
    return negotiate_locale(tags, list(NAMES), sep="-") or ENGLISH


def _parse_weight(part: str) -> tuple[float, str]:
    tag, _, parameter = part.strip().partition(";")
    try:
        return float(parameter.strip().removeprefix("q=") or 1), tag.strip()
    except ValueError:
        return 0.0, tag.strip()


def locale_of(language: str) -> Locale:
    return Locale.parse(language, sep="-")


@cache
def translations(language: str) -> NullTranslations:
    if language == ENGLISH:
        return NullTranslations()
    compiled = BytesIO()
    write_mo(compiled, catalogue(language))
    compiled.seek(0)
    return Translations(compiled)


def catalogue(language: str) -> Catalog:
    """Merges every *.po of the language."""
    whole = Catalog(locale=locale_of(language))
    for path in sorted((LOCALES / language.replace("-", "_")).glob("*.po")):
        with path.open("rb") as file:
            for message in read_po(file, locale=locale_of(language)):
                if message.id:
                    whole.add(message.id, message.string, context=message.context)
    return whole
