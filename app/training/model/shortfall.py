"""Whether a successful supervised fine-tuning by verl has trained all of its steps, from its output. Pure.

verl's data loader, restored from a checkpoint at the end of an epoch, yields nothing for the whole next epoch: the
program succeeds with that many steps missing (verl 0.9.1, https://github.com/verl-project/verl/issues/7401).
"""

from __future__ import annotations

import re

EPOCH = re.compile(r"Epoch \d{1,9}/(\d{1,9}): {1,3}100%\|[^|\r\n]{0,300}\| (\d{1,9})/\2 \[")
"""A finished progress bar: of how many epochs, and the steps of each."""
STEP = re.compile(r"\bstep:(\d{1,9}) - ")


def shortfall(log_tail: str, total_training_steps: int | None) -> str:
    """What to say of a task that trained fewer steps than it was to.

    Args:
        log_tail: The last output of the program.
        total_training_steps: As the task says, which ends it before its epochs do; None: nothing.

    Returns:
        A sentence; "" where nothing is missing, or the log does not say.
    """
    epochs, steps = EPOCH.findall(log_tail), STEP.findall(log_tail)
    if not epochs or not steps:
        return ""
    count, steps_per_epoch = epochs[-1]
    last, total = int(steps[-1]), int(count) * int(steps_per_epoch)
    if total_training_steps is not None:
        total = min(total, total_training_steps)
    if last >= total:
        return ""
    return (
        f"It trained {last} of {total} steps: verl skips an epoch when it goes on from a checkpoint at the end of one. "
        "For the rest, go on from a checkpoint within an epoch (resume_from)."
    )
