"""Numbers of the command line: NaN, which is neither more nor less than any limit, and infinity are bad usage."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

Command = Callable[..., None]


def with_finite_numbers(function: Command) -> Command:
    """A decorator: the command refuses options that are not finite."""

    @wraps(function)
    def command(**arguments: Any) -> None:
        for name, value in arguments.items():
            if isinstance(value, float) and not math.isfinite(value):
                hint = f"--{name.replace('_', '-')}"
                raise typer.BadParameter(f"{value} is not a finite number.", param_hint=hint)
        function(**arguments)

    return command
