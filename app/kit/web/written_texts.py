"""Translates stored English texts, such as events and decisions, into the reader's language.

Such texts are stored, and sent by nodes and policies, in English: API and command line show them unchanged. The catalog
has their patterns, in the gettext context CONTEXT: English with %(name)s for values. The values are parsed from the
text, and some are such texts themselves. A text without a pattern stays English and is marked so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup, escape

from app.kit.web.languages import ENGLISH, catalogue

CONTEXT = "written"
MOST_CHARACTERS = 4000
"""Longer texts are not translated."""
MOST_DEPTH = 4
TEXTS = re.compile(
    "advice|big|change|direction|ending|error|failure|places|range|reason|role|small|summary|tensors|what|why"
)
"""Placeholders whose values may be such texts themselves. All others are names and numbers, which stay unchanged."""
LISTS = re.compile("choices")
"""Placeholders whose values are lists of names: a sentence is none."""
_NAMES = re.compile(r"[^\s,]+(, [^\s,]+)*")
AS_WRITTEN = Markup('<span lang="en">{}</span>')
_PLACE = re.compile(r"%\((\w+)\)s")
_SENTENCE_END = re.compile(r"(?<=[.!?]) ")


@dataclass(frozen=True)
class TextForm:
    """A pattern of the catalog."""

    literals: tuple[str, ...]
    """The texts before, between and after the placeholders; one more than there are placeholders."""
    names: tuple[str, ...]
    translation: str

    @staticmethod
    def of(text: str, translation: str) -> TextForm:
        pieces = _PLACE.split(text)
        return TextForm(tuple(pieces[::2]), tuple(pieces[1::2]), translation)

    def facts_in(self, text: str) -> dict[str, str] | None:
        """Returns the values of a text with this pattern, none of them empty; None: it does not match. Each ends at the
        first occurrence of the text that follows it in the pattern."""
        *heads, tail = self.literals
        if not heads:
            return {} if text == tail else None
        if not text.startswith(heads[0]) or not text.endswith(tail):
            return None
        facts, at, end = {}, len(heads[0]), len(text) - len(tail)
        for name, literal in zip(self.names[:-1], heads[1:], strict=True):
            begin, at = at, text.find(literal, at + 1, end)
            if at < 0:
                return None
            facts[name], at = text[begin:at], at + len(literal)
        facts = {**facts, self.names[-1]: text[at:end]}
        are_lists = all(_NAMES.fullmatch(fact) for name, fact in facts.items() if LISTS.fullmatch(name))
        return facts if at < end and are_lists else None

    def fill(self, values: Mapping[str, str]) -> str:
        """Returns the translation with these values; a % that belongs to no placeholder is one, as in the pattern."""
        return _PLACE.sub(lambda place: values[place[1]], self.translation)


def filters(language: str) -> dict[str, Callable[[str], Markup]]:
    """written: Translates a stored English text."""

    def written(text: str) -> Markup:
        if language == ENGLISH or not text:
            return escape(text)
        return Markup("\n").join(_translate_line(forms_of(language), line) for line in text.splitlines())

    return {"written": written}


@cache
def forms_of(language: str) -> tuple[TextForm, ...]:
    """The most specific pattern first."""
    forms = [
        TextForm.of(message.id, message.string)
        for message in catalogue(language)
        if message.context == CONTEXT and isinstance(message.id, str) and isinstance(message.string, str)
    ]
    return tuple(sorted(forms, key=lambda form: -sum(map(len, form.literals))))


def match_translation(forms: tuple[TextForm, ...], text: str, depth: int = 0) -> str | None:
    """Translates with the first matching pattern; None: none matches."""
    if depth > MOST_DEPTH or len(text) > MOST_CHARACTERS:
        return None
    for form in forms:
        facts = form.facts_in(text)
        if facts is not None:
            return form.fill(_in_language(forms, facts, depth + 1))
    return None


def _in_language(forms: tuple[TextForm, ...], facts: Mapping[str, str], depth: int) -> dict[str, str]:
    return {
        name: _translate_fact(forms, fact, depth) if TEXTS.fullmatch(name) else fact for name, fact in facts.items()
    }


def _translate_fact(forms: tuple[TextForm, ...], fact: str, depth: int) -> str:
    """Translates a value that is such a text or a list of them; otherwise returns it unchanged."""
    items = [match_translation(forms, item, depth) for item in fact.split(", ")]
    if None not in items:
        return "、".join(item for item in items if item is not None)
    return match_translation(forms, fact, depth) or fact


def _translate_line(forms: tuple[TextForm, ...], line: str) -> Markup:
    """Translates the text as a whole, or sentence by sentence."""
    whole = match_translation(forms, line)
    if whole is not None:
        return escape(whole)
    sentences = [(sentence, match_translation(forms, sentence)) for sentence in _SENTENCE_END.split(line)]
    if all(text is None for _, text in sentences):
        return AS_WRITTEN.format(line)
    return Markup(" ").join(AS_WRITTEN.format(english) if text is None else escape(text) for english, text in sentences)
