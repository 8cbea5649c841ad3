"""Statistics of the sources: `python -m ops.survey [CHECKOUT]`, or `poe survey`. It prints one table, of this
checkout or of another.

Sizes count whole lines; a function is its whole span without decorators. All imports count: in a cycle
of modules or of parts (`app.video` and `app.nodes` are parts) they may also be lazy, or for types alone.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

from tests.harness.import_graph import cycles, import_graph, module_name, parts_graph
from tests.harness.paths import REPOSITORY

PRODUCT = ("app", "actors")
Function = ast.FunctionDef | ast.AsyncFunctionDef
NOUNS_IN_ING = frozenset({"preprocessing", "scheduling", "tracing", "training"})
"""The nouns of the field in -ing that may name a module or a folder."""
WORDS_IN_ING = NOUNS_IN_ING | {"blocking", "learning", "recording"}
"""The words of the field in -ing that may stand in such a name before another word."""
FORMATTER_MARK = r"#\s*fmt\s*:"
MARKS = {
    "marks for the formatter": FORMATTER_MARK,
    "noqa": "# noqa",
    "type: ignore": "# type: ignore",
    "except Exception": "except Exception",
    "dict[str, Any]": r"dict\[str, Any\]",
}


@dataclass(frozen=True)
class Sources:
    texts: Mapping[Path, str]
    """The texts by path in the checkout."""

    @cached_property
    def trees(self) -> Mapping[Path, ast.Module]:
        return {path: ast.parse(text) for path, text in self.texts.items()}

    @property
    def lines(self) -> int:
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        return [len(text.splitlines()) for text in self.texts.values()]

    @property
    def functions(self) -> list[tuple[Function, bool]]:
        """Returns each function, and whether it and the classes around it are public."""
        return [one for tree in self.trees.values() for one in functions(tree)]


def sources(root: Path, *folders: str) -> Sources:
    """Returns the Python files below some folders of a checkout; a missing folder has none."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return Sources({path.relative_to(root): path.read_text("utf-8") for path in paths})


def gerunds(paths: Iterable[Path]) -> list[Path]:
    """Returns the modules whose name, or that of a folder around them, ends in -ing and is no noun of the field, or has
    a word in -ing that is none of the field's. The number of a migration is no part of its name.
    """
    names = {path: [part.removesuffix(".py").lstrip("0123456789_") for part in path.parts] for path in paths}
    return [path for path, parts in names.items() if any(is_gerund(part) for part in parts)]


def is_gerund(name: str) -> bool:
    *first, last = name.split("_")
    return (last.endswith("ing") and name not in NOUNS_IN_ING) or any(
        word.endswith("ing") and word not in WORDS_IN_ING for word in first
    )


def functions(tree: ast.AST, *, is_public: bool = True) -> Iterator[tuple[Function, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, is_public=is_public and not node.name.startswith("_"))
        elif isinstance(node, Function):
            yield node, is_public and not node.name.startswith("_")
            yield from functions(node, is_public=False)
        else:
            yield from functions(node, is_public=is_public)


def table(root: Path) -> list[tuple[str, str]]:
    """Returns the rows of two cells for the checkout in this folder."""
    product, tests = sources(root, *PRODUCT), sources(root, "tests")
    public = [function for function, is_public in product.functions if is_public]
    graph = import_graph({module_name(path): tree for path, tree in product.trees.items()})
    parts = parts_graph(graph)
    code = "\n".join(product.texts.values())
    return [
        *((f"{name}: files, lines", f"{len(one.texts):,}, {one.lines:,}") for name, one in folders(root)),
        ("product: lines per file, median, p90, most", spread(product.lengths)),
        ("product: lines per function, median, p90, most", spread([length(one) for one, _ in product.functions])),
        ("product: return types", share([one.returns is not None for one, _ in product.functions])),
        ("product: docstrings of public functions", share([ast.get_docstring(one) is not None for one in public])),
        ("product: longer than 300, 400 lines", longer(product)),
        ("product: shorter than 40 lines", f"{sum(lines < 40 for lines in product.lengths)}"),
        ("tests by product, lines", f"{tests.lines / product.lines:.2f}" if product.lines else "–"),
        ("cycles of modules, lazy imports and types too", f"{len(cycles(graph))}"),
        ("cycles of parts (parts)", f"{len(cycles(parts))} ({len(parts)})"),
        (f"modules in -ing, beside {', '.join(sorted(NOUNS_IN_ING))}", f"{len(gerunds(product.texts))}"),
        *((f"product: {name}", f"{len(re.findall(mark, code))}") for name, mark in MARKS.items()),
    ]


def folders(root: Path) -> Iterator[tuple[str, Sources]]:
    """Yields the top folders, and each part below app."""
    names = sorted(path.name for path in (root / "app").iterdir() if path.is_dir() and any(path.rglob("*.py")))
    for folder in ("app", *(f"app/{name}" for name in names), "actors", "ops", "tests"):
        yield folder, sources(root, folder)


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def spread(values: Sequence[int]) -> str:
    ordered = sorted(values)
    return f"{median(ordered):.0f}, {ordered[len(ordered) * 9 // 10]}, {ordered[-1]}" if ordered else "–"


def share(values: Sequence[bool]) -> str:
    return f"{sum(values) / len(values):.1%}" if values else "–"


def longer(product: Sources) -> str:
    return f"{sum(lines > 300 for lines in product.lengths)}, {sum(lines > 400 for lines in product.lengths)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ops.survey", description="Statistics of the sources, as a table.")
    parser.add_argument("checkout", nargs="?", type=checkout, default=REPOSITORY, help="its folder; default: this one")
    rows = table(parser.parse_args(arguments).checkout)
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows))


def checkout(text: str) -> Path:
    if not (Path(text) / "app").is_dir():
        raise argparse.ArgumentTypeError(f"{text} has no folder app")
    return Path(text)


if __name__ == "__main__":
    main()
