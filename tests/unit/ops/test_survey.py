"""The survey of the sources counts what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.survey import gerunds, main, table

SHORT = '''"""Says something."""


class Box:
    def size(self) -> int:
        """In bytes."""
        return 1

    def _inner(self):
        def deeper() -> None: ...
        return deeper
'''


def test_a_survey_counts_files_functions_cycles_and_marks(tmp_path: Path) -> None:
    _written(tmp_path, "app/__init__.py", "")
    _written(tmp_path, "app/box/__init__.py", SHORT)
    _written(tmp_path, "app/box/packing.py", "def pack() -> None:\n    from app.crate import lid  # noqa: PLC0415\n")
    _written(tmp_path, "app/crate/__init__.py", "from app.box import packing\n" + "\n" * 400)
    _written(tmp_path, "tests/test_box.py", "\n" * 50)

    rows = dict(table(tmp_path))

    assert rows["app: files, lines"] == "4, 414"
    assert rows["app/box: files, lines"] == "2, 13"
    assert rows["product: lines per function, median, p90, most"] == "2, 3, 3"
    assert rows["product: return types"] == "75.0%"
    assert rows["product: docstrings of public functions"] == "50.0%"
    assert rows["product: longer than 300, 400 lines"] == "1, 1"
    assert rows["tests by product, lines"] == "0.12"
    assert rows["cycles of modules, lazy imports and types too"] == "1"
    assert rows["cycles of parts (parts)"] == "1 (3)"
    assert rows["modules in -ing, beside preprocessing, scheduling, tracing, training"] == "1"
    assert rows["product: noqa"] == "1"


def test_gerunds_are_modules_and_folders_that_are_no_nouns_of_the_field() -> None:
    nouns = [Path(name) for name in ("app/training/api.py", "app/migrations/0003_training.py", "app/ringer.py")]
    nouns += [Path("app/learning_curve.py"), Path("app/training_setup.py")]
    others = [Path(name) for name in ("app/packing.py", "app/packing/box.py", "app/token_training.py")]
    others += [Path("app/running_nodes.py"), Path("app/failing/box.py"), Path("app/all_failing_boxes.py")]

    assert gerunds([*nouns, *others]) == others


@pytest.mark.parametrize(
    ("argument", "status", "text"),
    [("--help", 0, "usage: python -m ops.survey"), ("/nowhere", 2, "/nowhere has no folder app")],
)
def test_arguments_are_answered_in_words(
    argument: str, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([argument])
    assert ended.value.code == status
    assert text in "".join(capsys.readouterr())


def _written(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
