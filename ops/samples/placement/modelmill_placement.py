"""What verl on the nodes imports (VERL_USE_EXTERNAL_MODULES) of a task that asks for a type of GPU or for custom
resources: each placement group of its asks for them, too, and so lies on a node that has them.

verl's own pools ask for CPUs and GPUs alone, and no setting of verl's adds to that.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

RESOURCES: dict[str, float] = json.loads(os.environ.get("MODELMILL_SLOT_RESOURCES") or "{}")
"""Of each group, which is a slot of the task: whole on one node."""


def with_resources(create: Callable[..., Any]) -> Callable[..., Any]:
    """A placement_group() of Ray's that asks for them with the first bundle."""

    @functools.wraps(create)
    def placement_group(bundles: Sequence[dict[str, float]], *args: Any, **options: Any) -> Any:
        first, *others = bundles
        return create([{**first, **RESOURCES}, *others], *args, **options)

    return placement_group


def install() -> None:
    """Wherever it was imported from already, and where it will be."""
    made = with_resources(importlib.import_module("ray.util.placement_group").placement_group)
    for name in ("ray.util", "ray.util.placement_group", "verl.single_controller.ray.base"):
        if name in sys.modules:
            sys.modules[name].placement_group = made  # type: ignore[attr-defined]


if RESOURCES:
    install()
