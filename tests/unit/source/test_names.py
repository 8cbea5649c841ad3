"""The rules of names that a test can hold: modules are nouns, public classes have one meaning, locals have names."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from ops.survey import FORMATTER_MARK, gerunds
from tests.harness.paths import REPOSITORY
from tests.harness.source_trees import nodes, source_trees

pytestmark = pytest.mark.slow
CLASSES_IN_ING = {
    "drawing",
    "ending",
    "finding",
    "missing",
    "ranking",
    "reading",
    "recording",
    "ring",
    "setting",
    "timing",
    "training",
}
"""The words in -ing with which the name of a class may end: nouns, and what an error says is missing."""
PRODUCT = ("app", "actors")
NAMELESS = {"asked", "found", "said", "wanted"}
"""Participles that tell nothing of what a value is."""
NAMELESS_BOUND = re.compile(rf"\b(?:{'|'.join(NAMELESS)})\b\s*(?:[=,:)\]]|[-+|&]=|in\b)")
"""What the text of a module has at least that binds such a name: most have it nowhere, and need not be parsed."""
EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
NAMELESS_VARIABLE = re.compile(rf"(?<![\w.])(?:{'|'.join(NAMELESS)})\b")
METAPHORS = {
    "census",
    "crowd",
    "desk",
    "doorkeeper",
    "hall",
    "janitor",
    "keeper",
    "kick",
    "ledger",
    "letter",
    "mouth",
    "nudge",
    "painter",
    "reel",
    "shelf",
    "spot",
    "wreckage",
}
"""Words for which the field has one of its own; see docs/glossary.md."""
PARTICIPLE = re.compile(
    r"_(?:(?!feed|need|seed|embed)[a-z]+ed|chosen|drawn|given|held|kept|made|sent|shown|taken|told|written)(?:_|$)"
)
"""Private names that begin with one."""
PROGRAMS = {"edge/agent", "edge/joint", "edge/video/runner", "edge/video/stage_host"}
"""Parts of the edge that are programs of their own: each has a vocabulary."""


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list}
    return not decorators.isdisjoint({"property", "cached_property"})


def is_predicate(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node.returns is not None and ast.unparse(node.returns) == "bool"


def modules_of(*folders: str) -> list[Path]:
    return [path.relative_to(REPOSITORY) for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]


def capability(path: Path) -> str:
    """The folder below app that a module belongs to."""
    within = path.relative_to("app").parent.as_posix() if path.parts[0] == "app" else "actors"
    return next((program for program in PROGRAMS if within.startswith(program)), within.split("/")[0])


def words(name: str) -> list[str]:
    """Returns the words of a name in snake_case or CamelCase, in lower case."""
    return [word.lower() for word in re.findall("[A-Z]?[a-z]+", name)]


def test_modules_and_folders_are_nouns() -> None:
    assert gerunds(modules_of(*PRODUCT, "ops", "tests/harness")) == []


def test_classes_are_nouns() -> None:
    assert [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in source_trees(*PRODUCT).items()
        for node in nodes(tree, ast.ClassDef)
        if (last := words(node.name)[-1]).endswith("ing") and last not in CLASSES_IN_ING
    ] == []


def test_no_two_public_classes_of_a_capability_share_a_name() -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, tree in source_trees(*PRODUCT).items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[capability(path), node.name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_locals_say_what_they_are() -> None:
    texts = {path: (REPOSITORY / path).read_text() for path in modules_of(*PRODUCT, "ops", "tests")}
    nameless = {
        f"{path}:{node.lineno}"
        for path, text in texts.items()
        if NAMELESS_BOUND.search(text)
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMELESS)
        or (isinstance(node, ast.arg) and node.arg in NAMELESS)
    }
    assert nameless == set()


def test_functions_and_classes_are_called_for_what_they_give() -> None:
    assert [
        f"{path}:{node.lineno}"
        for path, tree in source_trees(*PRODUCT).items()
        for node in nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if node.name.lower() in NAMELESS
    ] == []


def test_private_functions_are_called_by_verbs() -> None:
    """A participle tells what the result is, and leaves open what is done. Predicates and properties may be one."""
    assert [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in source_trees(*PRODUCT).items()
        for node in nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef)
        if PARTICIPLE.match(node.name) and not is_property(node) and not is_predicate(node)
    ] == []


def test_names_are_words_of_the_field() -> None:
    assert [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in source_trees(*PRODUCT).items()
        for node in nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if METAPHORS & set(words(node.name))
    ] == []


def test_variables_of_templates_say_what_they_are() -> None:
    templates = list((REPOSITORY / "templates").rglob("*.html"))
    assert len(templates) > 150
    assert [
        f"{path.relative_to(REPOSITORY)}: {expression}"
        for path in templates
        for expression in EXPRESSION.findall(path.read_text())
        if NAMELESS_VARIABLE.search(TEXT.sub("", expression))
    ] == []


def test_the_formatter_decides_everywhere() -> None:
    sources = [path for folder in ("app", "actors", "ops", "tests") for path in (REPOSITORY / folder).rglob("*.py")]
    marks = [str(path) for path in sources if re.search(FORMATTER_MARK, path.read_text())]
    assert len(sources) > 1000 and marks == []
