"""The real verl, in .venv/verl beside what the product needs: its configuration always, what it runs on after
`ops/test --all`. Not among the packages of the environment, for its requirements are not those of the product."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from tests.harness.paths import REPOSITORY

VERL = Path(sys.prefix) / "verl"
"""Put on PYTHONPATH it is what `import verl` finds."""
CONFIG = VERL / "verl" / "trainer" / "config"
HAS_ALL = (VERL / "transformers").is_dir()
OPTIMUM = Path(sys.prefix) / "optimum"
"""optimum with a transformers that it works with; the rest is verl's."""
NAMES = {"verl.trainer.main_ppo": "ppo_trainer", "verl.trainer.sft_trainer_ray": "sft_trainer_engine"}
_VALIDATION = """
import json, sys
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
for name, fields in json.load(sys.stdin):
    config = OmegaConf.create(fields)
    if name == "ppo_trainer":
        validate_config(config, need_reference_policy(config), need_critic(config))
        parts = [config.actor_rollout_ref.rollout, config.actor_rollout_ref.model, config.algorithm]
    else:
        parts = [config.model, config.engine, config.optim, config.checkpoint]
    for part in parts:
        omega_conf_to_dataclass(part)
"""


def config_of(version: str) -> Path:
    """The configuration of an older version of verl, where ops/test has put it."""
    return Path(sys.prefix) / f"verl-{version}" / "verl" / "trainer" / "config"


def composed(words: Sequence[str], config: Path = CONFIG) -> DictConfig:
    """What verl reads of a command line: -m module setting… Raises what Hydra does.

    Hydra reads some twenty files each time, in Python: with libyaml all of it costs a quarter less.
    """
    dash, module, *settings = words
    assert dash == "-m"
    with patch.object(yaml, "SafeLoader", yaml.CSafeLoader), initialize_config_dir(str(config), version_base=None):
        return compose(NAMES[module], [word for word in settings if not word.startswith("hydra.")])


def missing(config: DictConfig) -> set[str]:
    """Mandatory values that nobody has given, of a reward model only where there is one."""
    keys = set(OmegaConf.missing_keys(config))
    has_one = OmegaConf.select(config, "reward.reward_model.enable", default=False)
    return keys if has_one else {key for key in keys if not key.startswith("reward.reward_model.")}


def run(*words: str, given: str = "") -> str:
    """A program on verl's packages. Returns what it wrote."""
    environment = {"PYTHONPATH": f"{VERL}:{REPOSITORY}", "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *words], input=given, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def put_optimum(file: Path) -> Path:
    """Writes an interpreter, as that of a virtual environment with optimum is."""
    file.write_text(f'#!/bin/sh\nPYTHONPATH={OPTIMUM}:{VERL} exec {sys.executable} "$@"\n')
    file.chmod(0o755)
    return file


def validate(commands: Sequence[Sequence[str]]) -> None:
    """By verl's own checks, all in one process: it takes long to import."""
    configurations: list[tuple[str, Any]] = []
    for words in commands:
        configurations.append((NAMES[words[1]], OmegaConf.to_container(composed(words))))
    run("-c", _VALIDATION, given=json.dumps(configurations))
