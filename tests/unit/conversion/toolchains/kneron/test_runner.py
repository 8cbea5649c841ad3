"""The script that the vendor's interpreter runs, without that interpreter."""

from __future__ import annotations

import ast
import os
import time
from pathlib import Path

import pytest

from app.conversion.toolchains.kneron import runner
from app.conversion.toolchains.kneron.vendor import RUNNER

TREE = ast.parse(RUNNER.read_text("utf-8"), feature_version=(3, 7))
NEWER_NAMES = {
    "removeprefix",
    "removesuffix",
    "missing_ok",
    "dirs_exist_ok",
    "is_relative_to",
    "with_stem",
    "hardlink_to",
    "cache",
    "cached_property",
    "prod",
    "dist",
    "comb",
    "perm",
    "isqrt",
    "nullcontext_async",
    "zoneinfo",
    "tomllib",
    "graphlib",
    "pairwise",
    "bit_count",
    "add_note",
    "ExceptionGroup",
    "file_digest",
    "to_thread",
    "chdir_context",
    "Literal",
    "Protocol",
    "TypedDict",
    "Final",
    "final",
    "ParamSpec",
    "TypeAlias",
    "StrEnum",
    "strict",
    "unparse",
    "walk_packages_strict",
    "random_bytes",
    "batched",
    "exc_add_note",
    "aclosing",
    "singledispatchmethod",
}
ALLOWED_MODULES = {
    "__future__",
    "collections",
    "contextlib",
    "inspect",
    "json",
    "os",
    "shutil",
    "sys",
    "time",
    "traceback",
    "typing",
    "numpy",
    "onnx",
    "ktc",
    "kneronnxopt",
}


def request(tmp_path: Path, **changes: object) -> dict:
    for name in ("scratch", "out", "keep"):
        (tmp_path / name).mkdir(exist_ok=True)
    paths = {"output": "result.bin", "output_dir": "out", "scratch": "scratch", "keep": "keep", "result": "r.json"}
    return {**{key: str(tmp_path / name) for key, name in paths.items()}, "search": [], **changes}


def test_the_runner_is_valid_python_3_7() -> None:
    assert TREE.body, "ast.parse above has checked the syntax"


def test_the_runner_postpones_its_annotations_so_that_old_interpreters_never_evaluate_them() -> None:
    futures = [node for node in TREE.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert [alias.name for node in futures for alias in node.names] == ["annotations"]


def test_the_runner_calls_nothing_that_is_newer_than_python_3_7() -> None:
    used = {node.attr for node in ast.walk(TREE) if isinstance(node, ast.Attribute)}
    used |= {node.id for node in ast.walk(TREE) if isinstance(node, ast.Name)}
    used |= {word.arg for node in ast.walk(TREE) if isinstance(node, ast.Call) for word in node.keywords if word.arg}
    used |= {alias.name for node in ast.walk(TREE) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert used & NEWER_NAMES == set()


def test_the_runner_has_no_f_string_that_prints_its_own_expression() -> None:
    assert "=}" not in RUNNER.read_text("utf-8")


def test_the_runner_subscripts_builtin_types_in_annotations_only() -> None:
    """dict[str, int] as a value fails before Python 3.9; in a postponed annotation it is only text."""
    notes: set[int] = set()
    for node in ast.walk(TREE):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if part is not None:
                notes |= {id(child) for child in ast.walk(part)}
    values = [node for node in ast.walk(TREE) if isinstance(node, ast.Subscript) and id(node) not in notes]
    bases = {node.value.id for node in values if isinstance(node.value, ast.Name)}
    assert not bases & {"dict", "list", "tuple", "set", "type", "Callable", "Iterator"}


def test_the_runner_imports_nothing_of_the_product() -> None:
    packages = set()
    for node in ast.walk(TREE):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            packages.add((node.module or "").split(".")[0])
    assert packages <= ALLOWED_MODULES


def test_arguments_the_installed_function_lacks_are_dropped_and_named() -> None:
    def installed(model: object, *, threads: int = 1) -> None: ...

    assert runner.split_arguments(installed, {"threads": 2, "b": 1, "a": 1}) == ({"threads": 2}, ["a", "b"])


def test_a_function_that_takes_any_keyword_gets_them_all() -> None:
    def installed(**kwargs: object) -> None: ...

    assert runner.split_arguments(installed, {"a": 1}) == ({"a": 1}, [])


def test_a_function_without_a_signature_gets_all_arguments() -> None:
    assert runner.split_arguments(type, {"a": 1}) == ({"a": 1}, [])


def test_the_returned_path_is_the_truth(tmp_path: Path) -> None:
    run = runner.Run(request(tmp_path))
    (tmp_path / "out" / "decoy.bie").write_bytes(b"decoy")
    (tmp_path / "elsewhere.bie").write_bytes(b"truth")
    run.take(str(tmp_path / "elsewhere.bie"), ".bie")
    assert (tmp_path / "result.bin").read_bytes() == b"truth"
    assert run.result["vendor_name"] == "elsewhere.bie" and run.result["warnings"] == []


@pytest.mark.parametrize("returned", [None, "", "/nowhere/x.bie", 7])
def test_an_output_that_is_not_where_it_should_be_is_searched_and_told(tmp_path: Path, returned: object) -> None:
    old = tmp_path / "old"
    old.mkdir()
    run = runner.Run(request(tmp_path, search=[str(old)]))
    (old / "deep").mkdir()
    (old / "deep" / "x.bie").write_bytes(b"found")
    run.take(returned, ".bie")
    assert (tmp_path / "result.bin").read_bytes() == b"found"
    assert "not where the toolchain said" in run.result["warnings"][0]


def test_the_search_prefers_the_output_folder(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    run = runner.Run(request(tmp_path, search=[str(old)]))
    (old / "x.bie").write_bytes(b"other")
    (tmp_path / "out" / "x.bie").write_bytes(b"mine")
    run.take(None, ".bie")
    assert (tmp_path / "result.bin").read_bytes() == b"mine"


@pytest.mark.parametrize("trap", ["older", "empty", "link", "ending"])
def test_the_search_takes_no_file_that_cannot_be_this_runs_output(tmp_path: Path, trap: str) -> None:
    run = runner.Run(request(tmp_path))
    path = tmp_path / "out" / ("x.txt" if trap == "ending" else "x.bie")
    if trap == "link":
        (tmp_path / "real").write_bytes(b"x")
        path.symlink_to(tmp_path / "real")
    else:
        path.write_bytes(b"" if trap == "empty" else b"x")
    if trap == "older":
        os.utime(path, (time.time() - 60, time.time() - 60))
    with pytest.raises(runner.NoOutput):
        run.take(str(path) if trap == "empty" else None, ".bie")


def test_the_result_is_never_seen_half_written(tmp_path: Path) -> None:
    run = runner.Run(request(tmp_path))
    run.result["odd"] = object()
    with pytest.raises(TypeError):
        run.write(ok=True)
    assert not (tmp_path / "r.json").exists()


def test_the_search_ends_in_a_huge_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WALK_LIMIT", 5)
    for index in range(20):
        (tmp_path / str(index)).touch()
    assert len(list(runner.files_under(str(tmp_path)))) == 5
