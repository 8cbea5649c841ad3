"""What tools show of a function with many parameters says what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.harness.source_trees import nodes, source_trees

pytestmark = pytest.mark.slow
MANY = 4
MANY_COLLABORATORS = 5
"""Of a constructor, which is called in one place and whose parameters are mostly objects of a class that says it."""
SAYS_IT = ("Args:", "See `", "rguments as of")
"""A section of its own, or another function that has one: most often that of the protocol it keeps."""
DESCRIBED_TO_USERS = {"ConversionTools.submit"}
"""Docstrings that a program shows as they are: agents read that of a tool."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(tree: ast.AST, owner: ast.ClassDef | None = None) -> Iterator[tuple[str, Function, str]]:
    """Names, functions and what their docstrings say, that of the class with the one of its constructor."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node, node)
        elif isinstance(node, Function) and (not node.name.startswith("_") or node.name == "__init__"):
            docstring = ast.get_docstring(node) or ""
            if owner is not None and node.name == "__init__":
                docstring += ast.get_docstring(owner) or ""
            yield f"{owner.name}.{node.name}" if owner else node.name, node, docstring


def parameters(function: Function) -> list[str]:
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def is_command(function: Function) -> bool:
    """Its parameters have help texts of their own."""
    arguments = ast.unparse(function.args)
    return "typer." in arguments or any(name in ("client", "url", "context") for name in parameters(function))


def is_endpoint(function: Function) -> bool:
    """Its parameters are those of its path, and the models of its body and query."""
    return any("OPERATIONS." in ast.unparse(decorator) for decorator in function.decorator_list)


def test_many_parameters_are_described() -> None:
    functions = [
        (f"{path}: {name}", name, function, docstring)
        for path, tree in source_trees("app", "actors").items()
        for name, function, docstring in public_functions(tree)
        if len(parameters(function)) >= (MANY_COLLABORATORS if function.name == "__init__" else MANY)
    ]
    assert len(functions) > 200
    assert [
        place
        for place, name, function, docstring in functions
        if name not in DESCRIBED_TO_USERS
        and not ("cli" in place and is_command(function))
        and not is_endpoint(function)
        and not any(word in docstring for word in SAYS_IT)
    ] == []


def errors_without_condition(docstring: str) -> list[str]:
    section = re.search(r"^Raises:\n((?: {4}.*(?:\n|$))+)", docstring, re.MULTILINE)
    return re.findall(r"^ {4}[^\s:]+(?:, [^\s:]+)*$", section[1], re.MULTILINE) if section else []


def test_errors_stand_in_a_section_each_with_its_condition() -> None:
    """Documentation tools find them in a section of their own only."""
    functions = [
        (f"{path}: {name}", docstring)
        for path, tree in source_trees("app", "actors").items()
        for name, _, docstring in public_functions(tree)
    ]
    assert [place for place, docstring in functions if re.search(r"\bRaises? [A-Z]", docstring)] == []
    assert {place: bare for place, docstring in functions if (bare := errors_without_condition(docstring))} == {}


def test_a_section_is_one_for_tools() -> None:
    """If it begins on the first line of a docstring, its entries have no indentation of their own, and are text to
    tools."""
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    assert [
        f"{path}:{node.lineno}"
        for path, tree in source_trees("app", "actors").items()
        for node in nodes(tree, *documented)
        if re.match(r"(Args|Returns|Raises|Attributes):\n(?! {4})", ast.get_docstring(node) or "")
    ] == []


def described_names(docstring: str) -> set[str]:
    """The names of parameters that a section describes, one or several to an entry."""
    section = re.search(r"^Args:\n((?: {4}.*(?:\n|$)|\n)+)", docstring, re.MULTILINE)
    entries = re.findall(r"^ {4}(\S[^:]*):", section[1], re.MULTILINE) if section else []
    return {name.strip("*") for entry in entries for name in re.split(r", | and ", entry)}


def test_what_is_described_is_a_parameter() -> None:
    described = {
        f"{path}: {name}": described_names(docstring) - {"self", *all_parameters(function)}
        for path, tree in source_trees("app", "actors").items()
        for name, function, docstring in public_functions(tree)
    }
    assert len(described) > 1000
    assert {place: names for place, names in described.items() if names} == {}


def all_parameters(function: Function) -> list[str]:
    several = [each.arg for each in (function.args.vararg, function.args.kwarg) if each is not None]
    return [*parameters(function), *several]
