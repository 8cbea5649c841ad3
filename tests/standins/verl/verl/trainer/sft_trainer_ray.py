"""Stands in for verl's SFT trainer: placement groups without a check, for which it waits for ever. See ../../README.md."""

from __future__ import annotations

import sys

from verl.standin import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], has_check=False))
