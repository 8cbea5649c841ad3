"""Errors and warnings in the reader's language."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.support import NullTranslations
from markupsafe import Markup

import app
from app.conversion.intake import calibration_checks, range_checks
from app.conversion.model import JobError
from app.conversion.toolchains.kneron.known_failures import TABLE
from app.kit.errors import ModelmillError
from app.kit.web.coded_texts import CONTEXT, filters
from app.kit.web.languages import CHINESE, catalogue, translations
from app.kit.web.templates import environment
from app.kit.web.written_texts import forms_of, match_translation

NOT_FINITE = JobError("bie", "tensor 'y' holds NaN for sample 'a'", "STAGE_NOT_FINITE", "Submit the job again.")
NAMED = {"tensor": "y", "sample": "<a>", "kind": "NaN"}


def shown(language: str, text: str, **context: object) -> str:
    return environment(language).from_string(text).render(**context)


def test_english_is_what_was_written() -> None:
    error = {"code": "STAGE_NOT_FINITE", "message": "<b>", "detail": NAMED}
    assert shown("en", "{{ error | reason }}", error=error) == "&lt;b&gt;"
    assert shown("en", "{{ hint | advice }}", hint="Submit the job again.") == "Submit the job again."


def test_a_code_with_its_facts_is_a_sentence_of_the_catalogue() -> None:
    error = {"code": "STAGE_NOT_FINITE", "message": "tensor", "detail": NAMED}
    assert shown("zh-Hant", "{{ error | reason }}", error=error) == "張量 y 在樣本 &lt;a&gt; 上含有 NaN。"
    assert shown("zh-Hant", "{{ error.hint | advice }}", error=NOT_FINITE) == "請重新送出工作。"


@pytest.mark.parametrize("code", ["STAGE_NOT_FINITE", "NO_SUCH_CODE"])
def test_without_a_sentence_or_its_facts_it_stays_english_and_says_so(code: str) -> None:
    error = JobError("bie", "holds <NaN>", code)
    assert shown("zh-Hant", "{{ error | reason }}", error=error) == '<span lang="en">holds &lt;NaN&gt;</span>'
    assert shown("zh-Hant", "{{ 'Do %s.' | advice }}") == '<span lang="en">Do %s.</span>'


def test_a_sentence_without_places_is_followed_by_what_was_written() -> None:
    text = shown(
        "zh-Hant", "{{ error | reason }}", error=JobError("nef", "out of memory: 2 GiB", "STAGE_OUT_OF_MEMORY")
    )
    assert text.startswith("這個階段需要的記憶體超過上限。") and "out of memory: 2 GiB" in text


@pytest.mark.parametrize(
    ("language", "message", "text"),
    [
        ("en", "at 3: unknown", "at 3: unknown. Submit the job again."),
        ("en", "Is it there?", "Is it there? Submit the job again."),
        ("zh-Hant", "at 3: <b>", '<span lang="en">at 3: &lt;b&gt;</span>. 請重新送出工作。'),
    ],
)
def test_an_error_and_its_hint_are_two_sentences(language: str, message: str, text: str) -> None:
    error = JobError("bie", message, "NO_SUCH_CODE", "Submit the job again.")
    assert shown(language, "{{ error | problem }}", error=error) == text


def test_a_sentence_in_chinese_without_a_stop_gets_the_chinese_one() -> None:
    texts = NullTranslations()
    texts.pgettext = lambda context, text: "沒有 y" if text == "INTERNAL_ERROR" else text
    problem = filters(texts, Markup, is_english=False)["problem"]
    assert problem(ModelmillError("no y", hint="Try.")) == '沒有 y <span class="as-written" lang="en">no y</span>. Try.'
    texts.pgettext = lambda context, text: "沒有 %(name)s"
    assert problem(ModelmillError("no y", hint="Try.", detail={"name": "y"})) == "沒有 y。 Try."
    assert problem(ModelmillError("no y", detail={"name": "y"})) == "沒有 y"


def descendants(kind: type[ModelmillError]) -> Iterator[type[ModelmillError]]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def test_every_error_of_a_capability_has_a_sentence() -> None:
    folder = Path(app.__file__).parent
    for path in folder.glob("*/errors.py"):
        importlib.import_module(f"app.{path.parent.name}.errors")
    kinds = [kind for kind in descendants(ModelmillError) if kind.__module__.endswith(".errors")]
    assert len(kinds) > 100
    texts = translations("zh-Hant")
    assert {kind.code for kind in kinds if texts.pgettext(CONTEXT, kind.code) == kind.code} == set()


def test_every_finding_and_the_advice_of_every_known_failure_is_translated() -> None:
    known = catalogue("zh-Hant")
    sources = "".join(Path(module.__file__).read_text("utf-8") for module in (calibration_checks, range_checks))
    codes = {part.split('"')[1] for part in sources.split("Finding(")[1:] if '"' in part.split(",")[0]}
    assert len(codes) > 10
    texts = translations("zh-Hant")
    assert not {code for code in codes if texts.pgettext(CONTEXT, code) == code}
    assert not {failure.hint for failure in TABLE if not known.get(failure.hint)}


FOR_TERMINALS = ("cli", "standalone", "edge")
"""Folders whose errors no page shows."""


def hints() -> Iterator[str]:
    """Those of all errors that pages show, "7" in the place of each fact."""
    folder = Path(app.__file__).parent
    for path in folder.rglob("*.py"):
        if path.name != "cli.py" and not set(path.relative_to(folder).parts) & set(FOR_TERMINALS):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if "hint" in text else ():
                if isinstance(node, ast.keyword) and node.arg == "hint":
                    yield written_in(node.value)


def written_in(value: ast.expr) -> str:
    if isinstance(value, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "7" for part in value.values)
    return value.value if isinstance(value, ast.Constant) else ""


@pytest.mark.slow
def test_what_errors_advise_is_translated_also_with_facts() -> None:
    known, forms = catalogue(CHINESE), forms_of(CHINESE)
    texts = {hint for hint in hints() if hint}
    assert len(texts) > 300
    assert {text for text in texts if not known.get(text) and match_translation(forms, text) is None} == set()


def test_advice_with_facts_is_translated_by_its_form() -> None:
    assert shown(CHINESE, "{{ hint | advice }}", hint="Try again in about <7> s.") == "請約 &lt;7&gt; 秒後再試。"


def test_only_a_list_of_names_is_taken_for_one() -> None:
    assert match_translation(forms_of(CHINESE), "There are face_detection, motion.") == "現有 face_detection, motion。"
    assert match_translation(forms_of(CHINESE), "There are no pictures in it.") is None
