"""What a stage loads in a child that the fork server has not loaded before: `python -m … STAGE FOLDER` prints it last.

In a process of its own, for this one has loaded all there is.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from app.conversion.model import Stage
from app.conversion.toolchains import libraries


def main(stage: Stage, folder: Path) -> None:
    for module in libraries.of_stages([stage]):
        importlib.import_module(module)
    before = set(sys.modules)
    from app.conversion.options import Options
    from app.conversion.toolchains.base import StageRequest
    from app.conversion.toolchains.host.toolchain import HostToolchain

    HostToolchain().run(StageRequest(stage, folder, Options(), 1), lambda *_: None)
    print(*sorted(set(sys.modules) - before), sep=",")


if __name__ == "__main__":
    main(Stage(sys.argv[1]), Path(sys.argv[2]))
