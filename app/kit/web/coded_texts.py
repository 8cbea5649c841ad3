"""What an error or a warning says in the reader's language: by its code, with its facts as parameters.

English is what was written where it arose. In another language the catalogue has a sentence for the code (in the
gettext context CONTEXT), with %(name)s for facts of the detail. A sentence without places for facts is followed by
what was written in English, where names and numbers are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from babel.support import NullTranslations
from markupsafe import Markup, escape

CONTEXT = "code"
ENGLISH = Markup('<span lang="en">{}</span>')
BELOW = Markup('{} <span class="as-written" lang="en">{}</span>')


def filters(texts: NullTranslations, *, is_english: bool) -> dict[str, Callable[..., Markup]]:
    """
    reason: Of an error or a warning, an object or a dict with code, detail, and message or reason.
    advice: Of a hint, which is a sentence of the catalogue or stays English.
    """

    def reason(error: Any) -> Markup:
        written = str(_of(error, "message") or _of(error, "reason") or "")
        return (
            escape(written) if is_english else _sentence(texts, str(_of(error, "code")), written, _of(error, "detail"))
        )

    def advice(hint: str) -> Markup:
        translated = texts.gettext(hint) if hint else ""
        return escape(translated) if is_english or translated != hint else ENGLISH.format(hint)

    return {"reason": reason, "advice": advice}


def _sentence(texts: NullTranslations, code: str, written: str, detail: Any) -> Markup:
    sentence = str(texts.pgettext(CONTEXT, code))
    if sentence == code:
        return ENGLISH.format(written)
    if "%(" not in sentence:
        return BELOW.format(sentence % {}, written)
    try:
        return escape(sentence % (detail if isinstance(detail, Mapping) else {}))
    except (KeyError, TypeError, ValueError):  # an older record, or raised where a fact was not known
        return ENGLISH.format(written)


def _of(error: Any, name: str) -> Any:
    return error.get(name) if isinstance(error, Mapping) else getattr(error, name, None)
