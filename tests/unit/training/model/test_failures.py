"""Why an attempt failed, from texts as Ray, verl, Hydra and PyTorch write them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from app.training.model import FailureKind, failures, log_excerpt
from app.training.model.failures import SUMMARY_CHARS, Failure, classify, is_retried
from app.training.model.log_excerpt import MOST_CHARS, read
from tests.harness.training.failed_programs import CASES, COMMAND, Case


def judge(case: Case, status: str = "FAILED", *, was_stopped: bool = False) -> Failure:
    return classify(status, case.error_type, case.exit_code, case.message, case.log, was_stopped=was_stopped)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_kind_of_a_failure_and_its_line(case: Case) -> None:
    judgement = judge(case)
    assert judgement.kind is case.kind, judgement
    assert case.summary in judgement.summary


@pytest.mark.parametrize("case", [case for case in CASES if case.log], ids=lambda case: case.name)
def test_line_ends_of_another_system_change_nothing(case: Case) -> None:
    assert judge(replace(case, log=case.log.replace("\n", "\r\n"))) == judge(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_whatever_was_told_to_stop_was_canceled(case: Case) -> None:
    assert judge(case, was_stopped=True).kind is FailureKind.CANCELED


def test_stopped_by_somebody_else_is_said_to_be_so() -> None:
    judgement = judge(CASES[0], "STOPPED")
    assert judgement == Failure(FailureKind.CANCELED, "Stopped on Ray by somebody else")


def test_what_ray_does_not_know_any_more_is_lost() -> None:
    assert classify("", "", None, "", "", was_stopped=False).kind is FailureKind.LOST


def test_a_summary_is_one_short_line_without_colours() -> None:
    failure = classify(
        "FAILED", COMMAND, 1, "", "\x1b[31mValueError: a\tb \x07 \x1b[0m" + "x" * 5000, was_stopped=False
    )
    assert failure.summary.startswith("ValueError: a b x")
    assert len(failure.summary) == SUMMARY_CHARS and failure.summary.isprintable()


def test_rays_own_line_is_no_output_of_the_program_wherever_it_stands() -> None:
    """Ray writes it when the program has started, so it comes last in the log of one that ends at once."""
    of_ray = "Running entrypoint for job a: exec python a.py"
    for log in (f"refused\n{of_ray}\n", f"{of_ray}\nrefused\n"):
        failure = classify("FAILED", COMMAND, 1, "", log, was_stopped=False)
        assert failure == Failure(FailureKind.RUNTIME_ERROR, "Ended with exit code 1: refused")


@pytest.mark.parametrize(
    ("kind", "retries", "tried_s", "again"),
    [
        (FailureKind.INSUFFICIENT_RESOURCES, 0, 86399, True),
        (FailureKind.INSUFFICIENT_RESOURCES, 9, 86400, False),
        (FailureKind.INFRA_ERROR, 1, 1e9, True),
        (FailureKind.INFRA_ERROR, 0, 0, False),
        (FailureKind.LOST, 1, 0, True),
        (FailureKind.LOST, 0, 0, False),
        (FailureKind.USER_ERROR, 9, 0, False),
        (FailureKind.RUNTIME_ERROR, 9, 0, False),
        (FailureKind.OUT_OF_MEMORY, 9, 0, False),
        (FailureKind.CANCELED, 9, 0, False),
        (FailureKind.UNKNOWN, 9, 0, False),
    ],
)
def test_what_is_tried_again(kind: FailureKind, retries: int, tried_s: float, again: bool) -> None:
    assert is_retried(kind, infra_retries=retries, tried_s=tried_s, most_s=86400) is again


# --- any text -----------------------------------------------------------------------------------------
PATTERNS = [
    value for module in (failures, log_excerpt) for value in vars(module).values() if isinstance(value, re.Pattern)
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:20])
def test_no_pattern_repeats_without_bound(pattern: re.Pattern[str]) -> None:
    """So no text takes it more than so many steps for each of its characters."""
    syntax = re.sub(r"\[.*?\]", "", re.sub(r"\\.", "", pattern.pattern))
    assert not re.search(r"[*+]|,\}", syntax)


def test_of_a_long_text_the_end_is_read() -> None:
    message = read("early\n" * 300_000 + "late")
    assert message.lines[-1] == "late"
    assert sum(len(line) + 1 for line in message.lines) <= MOST_CHARS + 1
