"""The script that the vendor's interpreter runs, in an interpreter of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from app.conversion.toolchains.kneron.vendor import RUNNER


def test_the_products_folder_does_not_hide_the_vendors_modules(tmp_path: Path) -> None:
    """report.py and operators.py lie beside runner.py; the vendor may have modules of those names."""
    (tmp_path / "ktc").mkdir()
    (tmp_path / "report.py").write_text("name = 'vendor'")
    (tmp_path / "ktc" / "__init__.py").write_text("import report; print('got', report.name); raise SystemExit(3)")
    for name in ("scratch", "out", "keep"):
        (tmp_path / name).mkdir()
    paths = {"output": "result.bin", "output_dir": "out", "scratch": "scratch", "keep": "keep", "result": "r.json"}
    job = {key: str(tmp_path / name) for key, name in paths.items()}
    (tmp_path / "q.json").write_text(json.dumps({**job, "search": [], "stage": "BIE"}))
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(tmp_path / "q.json")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "got vendor" in done.stdout and done.returncode == 1
