"""Makes the package's `_sync` from `_async`: `python ops/packages/modelmill-client/generate.py`, after each change.

With a folder as argument they go there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

PACKAGE = Path(__file__).parent / "modelmill_client"
SOURCE, TARGET = "_async", "_sync"
NAMES = {
    "AsyncModelmill": "Modelmill",
    "AsyncArchivedJob": "ArchivedJob",
    "AsyncJob": "Job",
    "AsyncStoredJob": "StoredJob",
    "AsyncTransport": "Transport",
    "AsyncClient": "Client",
    "AsyncBaseTransport": "BaseTransport",
    "asynccontextmanager": "contextmanager",
    "asyncio": "time",
    "aclose": "close",
    "aread": "read",
    "aiter_lines": "iter_lines",
    "aiter_bytes": "iter_bytes",
    "_async": "_sync",
}
MARK = "# Made from _async by generate.py: change that.\n"
DOCUMENTED = {
    "The client to be awaited. The other one is made from it: see generate.py.": "The client that waits by itself.",
}


def generate(folder: Path) -> None:
    """Into this folder."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / SOURCE
        shutil.copytree(PACKAGE / SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        rule = unasync.Rule(f"/{SOURCE}/", f"/{TARGET}/", additional_replacements=NAMES)
        unasync.unasync_files([str(path) for path in sorted(source.glob("*.py"))], [rule])
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted((Path(scratch) / TARGET).glob("*.py")):
            (folder / path.name).write_text(_finished(path.read_text(encoding="utf-8")), encoding="utf-8")


def _finished(text: str) -> str:
    for former, text_of_sync in DOCUMENTED.items():
        text = text.replace(former, text_of_sync)
    text = text.replace("import time\nimport json\nimport time\n", "import json\nimport time\n")
    return _formatted(MARK + text)


def _formatted(text: str) -> str:
    """Imports in order, and lines as the house has them."""
    for command in (["check", "--fix-only", "--quiet", "--select", "I,F811"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PACKAGE / TARGET / "x.py"), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE / TARGET)
