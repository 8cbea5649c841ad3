"""The policies by name: the product's own and those of entry points."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from app.video.errors import UnknownPolicy
from app.video.scheduling.contract import ENTRY_POINTS, Policy

PRODUCT: Mapping[str, str] = {
    name: f"app.video.scheduling.policies.{module}:{name}"
    for name, module in (
        ("profile", "profile"),
        ("stepwise", "stepwise"),
        ("aimd", "aimd"),
        ("edge_only", "one_side"),
        ("cloud_only", "one_side"),
        ("fixed", "fixed"),
    )
}
"""name → module:function."""
logger = logging.getLogger(__name__)


def policies() -> dict[str, str]:
    """name → what it does, in one sentence (the first line of its docstring)."""
    return {name: _describe(name) for name in [*PRODUCT, *others()]}


def policy_of(name: str) -> Policy:
    """Returns the policy of a name.

    Raises:
        UnknownPolicy: There is none, or it cannot be loaded. The hint names the others.
    """
    if name not in PRODUCT and name not in others():
        raise UnknownPolicy(
            f"There is no scheduling policy {name[:64]!r}.", hint=f"There are {', '.join([*PRODUCT, *others()])}."
        )
    try:
        return _load(name)
    except Exception as error:  # policies are foreign code
        raise UnknownPolicy(
            f"The scheduling policy {name} cannot be loaded: {type(error).__name__}: {error}.",
            hint="Look at its package, or choose another one.",
        ) from error


@cache
def others() -> Mapping[str, EntryPoint]:
    """The entry points by name; read once a process."""
    points: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        if point.name in PRODUCT or point.name in points:
            logger.warning("Scheduling policy %s of %s is left out: the name is taken", point.name, point.value)
        else:
            points[point.name] = point
    return points


@cache
def _load(name: str) -> Policy:
    if name in PRODUCT:
        module, function = PRODUCT[name].split(":")
        policy = getattr(import_module(module), function)
    else:
        policy = others()[name].load()
    if not callable(policy):
        raise TypeError(f"{name} is not a function")
    return cast(Policy, policy)


@cache
def _describe(name: str) -> str:
    try:
        text = inspect.getdoc(_load(name)) or ""
    except Exception as error:  # policies are foreign code
        logger.warning("Scheduling policy %s cannot be loaded", name, exc_info=True)
        return f"Cannot be loaded: {type(error).__name__}."
    return text.split("\n\n")[0].replace("\n", " ").strip()
