"""Sets up training for a running `modelmill up`: `python -m app.standalone.training_setup RUN_DIR`.

Installs Ray into this Python environment if it is missing, then signals the running stack to start a Ray cluster.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from app.standalone.data_folder import Lock
from app.standalone.extras import ensure_extra
from app.standalone.launch import TRAINING_SIGNAL


def main() -> int:
    if not ensure_extra("train", "ray"):
        return 1
    owner = Lock.owner(Path(sys.argv[1]))
    if owner is None:
        print("`modelmill up` has ended in the meantime.")
        return 1
    print("A Ray cluster is starting on this machine. The pages restart and are away for a moment.")
    os.kill(owner, TRAINING_SIGNAL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
