"""How `ops/test` tells what came of the checks that run beside the tests."""

from __future__ import annotations

import subprocess

import pytest

from ops.audit import NOT_AUDITED
from tests.harness.paths import REPOSITORY

REST = """
task() { return "${1#exit-}"; }
begin_checks "$@"
end_checks
printf '%s\\n' "${parts[@]}"
echo "has_failed=$has_failed is_incomplete=$is_incomplete"
"""


@pytest.mark.parametrize(
    ("codes", "outcomes", "end"),
    [
        ([0, 0], ["passed", "passed"], "has_failed= is_incomplete="),
        ([0, NOT_AUDITED], ["passed", "NOT DONE, which is accepted: see above"], "has_failed= is_incomplete=1"),
        ([1, NOT_AUDITED], ["FAILED", "NOT DONE, which is accepted: see above"], "has_failed=1 is_incomplete=1"),
    ],
)
def test_a_check_that_was_not_done_has_neither_passed_nor_failed(
    codes: list[int], outcomes: list[str], end: str
) -> None:
    script = (REPOSITORY / "ops" / "test").read_text()
    functions = script[script.index("# Of each part how it ended") : script.index("is_quick=\n")]
    command = ["bash", "-euo", "pipefail", "-c", functions + REST, "checks", *(f"exit-{code}" for code in codes)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [line.split(" s  ")[1] for line in told[-3:-1]] == outcomes
    assert told[-1] == end
