"""Whether verl knows the settings that a task changes: those that its supported versions have are a table here. Pure.

A misspelled key would otherwise fail on the cluster, after the task has waited for it.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection
from functools import cache
from pathlib import Path

from app.training.model import Workload
from app.training.spec.document import bad
from app.training.spec.fields import TaskSpec
from app.training.spec.overrides import ENGINES, keys_in

TABLE = Path(__file__).with_suffix(".toml")
"""Written by `python -m tests.harness.training.verl_settings`."""
ADDED = "+"
"""Begins a key that is new to verl's configuration: Hydra adds it."""


def check_settings(spec: TaskSpec) -> None:
    """Refuse overrides that no supported version of verl knows.

    Raises:
        BadSpec: It names each, with the nearest that there is.
    """
    known = _list_known(spec.workload)
    named = [name for key, value in spec.overrides.items() for name in (key, *keys_in(key, value))]
    unknown = dict.fromkeys(
        name for name in named if not name.startswith(ADDED) and name not in ENGINES and not _knows(known, name)
    )
    if unknown:
        raise bad([{"at": "overrides", "problem": _find_problem(name, known)} for name in unknown])


def _find_problem(name: str, known: Collection[str]) -> str:
    near = next((key for key in difflib.get_close_matches(name, known, n=5) if _is_near(key, name)), None)
    meant = f": did you mean {near}?" if near else "."
    return f"{name}: verl 0.7 to 0.9 has no such setting{meant} If yours has it, write ++{name}"


def _is_near(key: str, name: str) -> bool:
    parts, others = key.split("."), name.split(".")
    return len(parts) == len(others) and all(
        difflib.get_close_matches(part, [other]) for part, other in zip(parts, others, strict=True)
    )


def _knows(known: Collection[str], name: str) -> bool:
    """What is below a setting is part of its value; above several, it is a map of them."""
    parts = name.split(".")
    return any(".".join(parts[:count]) in known for count in range(1, len(parts) + 1)) or any(
        key.startswith(f"{name}.") for key in known
    )


@cache
def _list_known(workload: Workload) -> frozenset[str]:
    return frozenset(tomllib.loads(TABLE.read_text())["sft" if workload is Workload.SFT else "ppo"])
