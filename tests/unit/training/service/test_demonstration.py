"""The smallest training that there is to see: its program, and where the nodes find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.homes.model import HomesOptions
from app.training.errors import ProgramNotStored
from app.training.service.demonstration import CODE, DIGITS, PROGRAM, SAMPLE, SPEC, put_program, put_sample
from app.training.spec import read_spec


@pytest.mark.slow
def test_the_program_learns_and_tells_a_row_for_each_epoch(tmp_path: Path) -> None:
    put_program(tmp_path)
    put_program(tmp_path)
    [program] = (tmp_path / "common" / CODE).iterdir()
    rows = tmp_path / "metrics.jsonl"
    env = {**os.environ, "MODELMILL_METRICS_FILE": str(rows)}
    ended = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["step"] for row in told] == list(range(1, len(told) + 1))
    assert told[-1]["loss"] < told[0]["loss"] / 4 and told[-1]["accuracy"] > 0.9
    assert "points that it has not seen" in ended.stdout


def test_what_it_asks_for_is_the_program_that_is_put_there() -> None:
    spec, _ = read_spec(SPEC.format(common="/private/common").encode())
    assert (spec.code_path, spec.program) == (f"/private/common/{CODE}", PROGRAM)
    assert (SAMPLE / PROGRAM).is_file()


def test_a_folder_that_takes_no_program_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "common").write_text("no folder")
    with pytest.raises(ProgramNotStored, match="cannot be stored"):
        put_program(tmp_path)


def test_the_program_of_the_digits_task_is_put_where_the_task_names_it_and_files_that_are_there_stay(
    tmp_path: Path,
) -> None:
    spec, _ = read_spec((DIGITS / "train.yaml").read_bytes())
    homes, code = HomesOptions(tmp_path), tmp_path / "common/code/digits"
    for other in ({"code_path": "/private/common/code/other"}, {"program": "train.py"}):
        put_sample(homes, spec.model_copy(update=other))
    assert not code.exists()
    code.mkdir(parents=True)
    (code / "train.py").write_text("an administrator's")
    put_sample(homes, spec.model_copy(update={"code_path": "/private/common/code/digits/"}))
    assert (code / spec.program).read_bytes() == (DIGITS / spec.program).read_bytes()
    assert (code / "train.py").read_text() == "an administrator's"


def test_the_files_of_the_digits_task_are_all_that_its_program_imports(tmp_path: Path) -> None:
    spec, _ = read_spec((DIGITS / "train.yaml").read_bytes())
    put_sample(HomesOptions(tmp_path), spec)
    put = {path.name for path in (tmp_path / "common/code/digits").iterdir()}
    assert put == {path.name for path in DIGITS.glob("*.py")}
