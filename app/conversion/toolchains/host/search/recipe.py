"""Converts the steps of a report back to a choice, so that the result of a search can be reproduced and continued."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import get_args

from app.conversion.options import QuantizationStep
from app.conversion.toolchains.host.search.candidates import IN_FLOAT, Choice, Rewrite, Rewrites
from app.conversion.toolchains.host.search.ranges import METHODS, WIDE_METHOD
from app.kit.sandbox.errors import StageFailed

NAMED = 5


def rewrites_of(steps: Sequence[QuantizationStep]) -> Rewrites:
    """Returns how the float model is rewritten, in the order of the steps."""
    return tuple(dict.fromkeys(kind for step in steps for kind in get_args(Rewrite) if kind == step.kind))


def choice_of(steps: Sequence[QuantizationStep], activations: Collection[str], weights: Collection[str]) -> Choice:
    """Returns the choice.

    Args:
        steps: made by `Choice.steps`.
        activations: names of those of the model that is to be quantized.
        weights: names of those of the same model.

    Raises:
        StageFailed: A step names a tensor that the model does not have.
    """
    kinds = {step.kind for step in steps}
    wide, exact, tail = (
        {tensor for step in steps if step.kind == kind for tensor in step.tensors}
        for kind in ("int16", "float", "boundary")
    )
    if "float" in kinds and not exact:
        return IN_FLOAT
    ranges = [step for step in steps if step.kind == "range"]
    methods = tuple((tensor, step.method) for step in ranges for tensor in step.tensors)
    ranged = {tensor for tensor, _ in methods}
    unknown = sorted(((wide | exact | tail) - {*activations, *weights}) | (ranged - {*activations}))
    if unknown:
        raise StageFailed(
            f"the steps name tensors that this model does not have: {', '.join(unknown[:NAMED])}",
            hint="Take them from a report on the same model, or leave them out.",
            detail={"unknown": unknown[:100]},
        )
    return Choice(
        next((step.method for step in ranges if not step.tensors), METHODS[0]),
        methods,
        frozenset(wide & {*activations}),
        frozenset(wide & {*weights} - {*activations}),
        rewrites=rewrites_of(steps),
        tail=frozenset(tail),
        is_rounded="weight_rounding" in kinds,
        is_corrected="bias_correction" in kinds,
        exact=frozenset(exact),
        has_headroom=not any(step.kind == "int16" and step.method == WIDE_METHOD for step in steps),
    )
