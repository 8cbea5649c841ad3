"""Errors and warnings in the reader's language: by code, with values as parameters.

English is the original text. In another language the catalog has a sentence for the code (in the gettext context
CONTEXT), with %(name)s for values of the detail. A sentence without placeholders is followed by the English text, which
has the names and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from babel.support import NullTranslations
from markupsafe import Markup, escape

from app.kit.errors import SENTENCE_ENDS

CONTEXT = "code"
ENGLISH = Markup('<span lang="en">{}</span>')
BELOW = Markup('{} <span class="as-written" lang="en">{}</span>')


def filters(
    texts: NullTranslations, written: Callable[[str], Markup], *, is_english: bool
) -> dict[str, Callable[..., Markup]]:
    """
    reason: Translates an error or a warning, an object or a dict with code, detail, and message or reason.
    advice: Translates a hint: a sentence of the catalog, or one with values that matches a pattern.
    problem: Translates what is wrong with a field of a form: an error and its hint, or a text, which stays.

    Args:
        written: Translates by patterns, see app.kit.web.written_texts.
    """

    def reason(error: Any) -> Markup:
        english = str(_of(error, "message") or _of(error, "reason") or "")
        return (
            escape(english)
            if is_english
            else _write_reason(texts, str(_of(error, "code")), english, _of(error, "detail"))
        )

    def advice(hint: str) -> Markup:
        translated = texts.gettext(hint) if hint else ""
        return escape(translated) if is_english or translated != hint else written(hint)

    def problem(shown: Any) -> Markup:
        if isinstance(shown, str):
            return escape(shown)
        message, hint = reason(shown), advice(str(_of(shown, "hint") or ""))
        if not hint or message.striptags().endswith(SENTENCE_ENDS):
            return Markup("{} {}").format(message, hint).strip()
        is_as_written = is_english or message.endswith("</span>")
        return Markup("{}{} {}").format(message, "." if is_as_written else "。", hint)

    return {"reason": reason, "advice": advice, "problem": problem}


def plain_reason(texts: NullTranslations, error: Any) -> str:
    """Like the filter `reason`, for messages instead of pages.

    Args:
        texts: The texts of the reader's language.
        error: As in the filter.
    """
    written = str(_of(error, "message") or _of(error, "reason") or "")
    sentence, has_facts = _find_sentence(texts, str(_of(error, "code")), _of(error, "detail"))
    return " ".join(part for part in (sentence, "" if has_facts else written) if part)


def _write_reason(texts: NullTranslations, code: str, written: str, detail: Any) -> Markup:
    sentence, has_facts = _find_sentence(texts, code, detail)
    if not sentence:
        return ENGLISH.format(written)
    return escape(sentence) if has_facts else BELOW.format(sentence, written)


def _find_sentence(texts: NullTranslations, code: str, detail: Any) -> tuple[str, bool]:
    """Returns the catalog's sentence for a code, empty if it has none, and whether it includes the values."""
    sentence = str(texts.pgettext(CONTEXT, code))
    if sentence == code:
        return "", False
    if "%(" not in sentence:
        return sentence % {}, False
    try:
        return sentence % (detail if isinstance(detail, Mapping) else {}), True
    except (KeyError, TypeError, ValueError):  # an older record, or raised where a value was unknown
        return "", False


def _of(error: Any, name: str) -> Any:
    return error.get(name) if isinstance(error, Mapping) else getattr(error, name, None)
