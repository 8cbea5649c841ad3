"""Whatever a program left in its log: a failure gets a kind and one short line."""

from __future__ import annotations

import pytest
from hypothesis import example
from hypothesis import strategies as st

from app.training.model.failures import SUMMARY_CHARS, classify
from tests.harness.timed_search import searched
from tests.harness.training.failed_programs import COMMAND, DIED

pytestmark = pytest.mark.slow
PIECES = st.sampled_from(
    [
        "\x1b[",
        "\x1b]",
        "\x1b",
        "0" * 50,
        ";" * 50,
        " " * 50,
        "\n",
        "\r",
        "(",
        ")",
        "pid=",
        "(raylet) ",
        "a.",
        "a" * 50,
        "Total available GPUs ",
        "is less than total desired GPUs",
        "Resource pool ",
        "x" * 100 + ":",
        "8*2",
        "In '",
        "': ",
        "Override ",
        "Error",
        "Error: ",
        "Exception ignored in",
        "Cannot satisfy placement group requirement for pool '",
        "CUDA out of memory",
        "Task failed due to the node ",
        "\x00",
        "\ud800",
        "訓練",
        "\u2028",
        "999999999.",
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200)


@searched(
    st.sampled_from(["FAILED", "STOPPED", "SUCCEEDED", "", "?"]),
    st.sampled_from([COMMAND, DIED, "", "?"]),
    st.none() | st.integers(-(2**31), 2**31),
    TEXTS,
    TEXTS,
    seconds=1,
)
@example("FAILED", COMMAND, 1, "", "\x1b]0;" + "x" * 50)
def test_no_text_is_too_odd(status: str, error_type: str, exit_code: int | None, message: str, log: str) -> None:
    failure = classify(status, error_type, exit_code, message, log, was_stopped=False)
    assert 0 < len(failure.summary) <= SUMMARY_CHARS
    assert "\n" not in failure.summary and "\x1b" not in failure.summary
