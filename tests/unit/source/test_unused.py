"""What nothing uses is deleted: templates, macros, classes of the style sheets, functions of scripts, texts."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from tests.harness.paths import REPOSITORY
from tests.harness.source_trees import nodes, source_trees

TEMPLATES, STATIC, LOCALE = (REPOSITORY / folder for folder in ("templates", "static", "app/locale/zh_Hant"))
OF_UPLOT = re.compile(r"u-")
"""Classes that a vendored script gives."""
OF_DETAIL = {"Phase", "Blame", "Returncode", "Said"}
"""Names of what an error says of itself: its keys, with a capital letter."""
PATTERNS = {"hints.po", "written.po"}
"""Their texts have values in them."""


@cache
def texts(*suffixes: str) -> dict[Path, str]:
    """The files of pages and scripts with these suffixes, by path."""
    files = [path for root in (TEMPLATES, STATIC) for path in root.rglob("*") if path.suffix in suffixes]
    return {path: path.read_text() for path in files if "vendor" not in path.parts}


@cache
def strings() -> str:
    """All texts in the code, a line each."""
    trees = source_trees("app").values()
    return "\n".join(node.value for tree in trees for node in nodes(tree, ast.Constant) if isinstance(node.value, str))


@cache
def words() -> Counter[str]:
    return Counter(re.findall(r"[A-Za-z_][\w-]*", "\n".join([*texts(".html", ".js").values(), strings()])))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_every_template_is_rendered_included_or_imported() -> None:
    everything = "\n".join([*texts(".html").values(), strings()])
    names = [path.relative_to(TEMPLATES).as_posix() for path in texts(".html")]
    assert len(names) > 100
    assert [name for name in names if name not in everything] == []


def test_every_macro_and_function_of_a_script_is_used() -> None:
    defined = {
        name
        for path, text in texts(".html", ".js").items()
        for name in re.findall(r"macro (\w+)\(" if path.suffix == ".html" else r"function (\w+)\(", text)
    }
    assert len(defined) > 50
    assert {name for name in defined if words()[name] < 2} == set()


def test_every_class_of_a_style_sheet_is_given_to_something() -> None:
    """A name whose end is computed is recognized by its beginning, as `is-{{ state }}`."""
    beginnings = tuple(word for word in words() if re.fullmatch(r"[a-z-]{2,}-", word))
    classes = {
        name
        for text in texts(".css").values()
        for selector in re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/|url\([^)]*\)", "", text, flags=re.DOTALL))
        for name in re.findall(r"\.([A-Za-z_][\w-]*)", selector)
    }
    assert len(classes) > 300
    assert {
        name for name in classes if name not in words() and not name.startswith(beginnings) and not OF_UPLOT.match(name)
    } == set()


@cache
def written() -> str:
    """All texts of pages, scripts and code, with single blanks."""
    pages = "\n".join(texts(".html", ".js").values()).replace('\\"', '"').replace("\\'", "'")
    return squeezed(f"{pages}\n{strings()}")


@pytest.mark.parametrize(
    "path", sorted(path for path in LOCALE.glob("*.po") if path.name not in PATTERNS), ids=lambda path: path.stem
)
def test_every_translated_text_is_on_a_page_or_in_the_code(path: Path) -> None:
    with path.open("rb") as file:
        ids = [message.id[0] if isinstance(message.id, tuple) else message.id for message in read_po(file)]
    plain = {text for text in ids if "%(" not in text} - OF_DETAIL
    assert {text for text in plain if squeezed(text) not in written()} == set()
