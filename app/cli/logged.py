"""`python -m app.cli.logged dramatiq actors …`: runs an installed command with logs in our format from the first line.

For commands whose process logs before it loads us, or never does, like the master of Dramatiq. They then call
basicConfig, which keeps existing handlers.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from app.kit.observability import logs
from app.settings import load_settings


def main() -> int:
    settings = load_settings()
    logs.configure(settings.log_format, settings.log_level)
    programs = entry_points(group="console_scripts", name=sys.argv[1] if len(sys.argv) > 1 else "")
    if not programs:
        print("usage: python -m app.cli.logged COMMAND [ARGUMENTS]; COMMAND: dramatiq or periodiq", file=sys.stderr)
        return 2
    sys.argv = sys.argv[1:]
    code: int = next(iter(programs)).load()()
    return code


if __name__ == "__main__":
    sys.exit(main())
