"""Whether verl trained all steps, by logs as it writes them."""

from __future__ import annotations

import pytest

from app.training.model.shortfall import shortfall


def log(last_step: int, *, epochs: int = 15, is_whole: bool) -> str:
    """Of a task of four steps an epoch. is_whole: its last epoch ran to the end of its data."""
    bar = "\rEpoch {}/15: {:3d}%|{}| {}/4 [00:00<00:01,  2.78it/s]"
    lines = [bar.format(epochs - 1, 100, "█" * 10, 4)]
    lines += [bar.format(epochs, 25 * n, "█" * n, n) + f"step:{last_step - 3 + n} - train/loss:2.8\n" for n in range(4)]
    if is_whole:
        lines.append(bar.format(epochs, 100, "█" * 10, 4) + "\n")
    return "".join(lines)


def test_an_epoch_that_was_skipped_is_told() -> None:
    assert shortfall(log(56, is_whole=True), None).startswith("It trained 56 of 60 steps: verl skips an epoch")


@pytest.mark.parametrize(
    ("text", "total"),
    [
        (log(60, is_whole=False), None),
        (log(60, is_whole=True), None),
        (log(56, is_whole=True), 56),
        (log(40, epochs=10, is_whole=False), 40),
        ("step:3 - train/loss:2.8\n", None),
        ("\rEpoch 15/15: 100%|██████████| 4/4 [00:00<00:00,  4.43it/s]\n", None),
        ("", None),
    ],
)
def test_nothing_is_said_of_one_that_trained_all_or_does_not_say(text: str, total: int | None) -> None:
    assert shortfall(text, total) == ""


def test_its_own_number_of_steps_counts() -> None:
    assert "of 58 steps" in shortfall(log(56, is_whole=True), 58)
