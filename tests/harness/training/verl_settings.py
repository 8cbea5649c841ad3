"""The settings of verl that a task may change, read from the configurations of the supported versions.

`python -m tests.harness.training.verl_settings > app/training/spec/verl_settings.toml` writes the table of the product.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig
from pydantic_core import PydanticCustomError

from app.training.model import Workload
from app.training.spec.overrides import ENGINES, check_key, is_allowed
from tests.harness.training.verl import CONFIG, composed, config_of
from tests.harness.training.verl_tasks import FORM, VERL, filled_in, words

OLDER = ("0.7.1", "0.8.0")


def settings_of_tasks() -> dict[str, list[str]]:
    """Of any version, by the trainer that has them."""
    settings = {"ppo": set[str](), "sft": set[str]()}
    for workload in VERL:
        for config in (CONFIG, *map(config_of, OLDER)):
            trainer, command = "sft" if workload is Workload.SFT else "ppo", words(filled_in(workload, FORM))
            for chosen in ([], engines_of(workload, config)):
                names = leaves(composed([*command, *chosen], config))
                settings[trainer] |= {name for name in names if is_open(name, workload)}
    return {trainer: sorted(names) for trainer, names in settings.items()}


def engines_of(workload: Workload, config: Path) -> list[str]:
    """What chooses Megatron as its engine; nothing in a version that knows it by another configuration."""
    (key,) = (key for key, (workloads, _) in ENGINES.items() if workload in workloads)
    return [f"{key}=megatron"] if (config / key / "megatron.yaml").exists() else []


def leaves(node: DictConfig, at: str = "") -> Iterator[str]:
    """The keys of a configuration that have a value."""
    for name in node:
        below = node._get_node(name)
        place = f"{at}.{name!s}" if at else str(name)
        if isinstance(below, DictConfig) and len(below):
            yield from leaves(below, place)
        else:
            yield place


def is_open(name: str, workload: Workload) -> bool:
    """Whether a task may change it."""
    try:
        check_key(name)
    except PydanticCustomError:
        return False
    return is_allowed(name, workload)


if __name__ == "__main__":
    for trainer, names in settings_of_tasks().items():
        lines = "".join(f'    "{name}",\n' for name in names)
        sys.stdout.write(f"{trainer} = [\n{lines}]\n")
