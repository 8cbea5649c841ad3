"""Stands in for verl's PPO trainer (also GRPO): the check of free GPUs, then placement groups. See ../../README.md."""

from __future__ import annotations

import sys

from verl.standin import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], has_check=True))
