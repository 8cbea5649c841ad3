"""What the program in a pack says on a device where something is missing."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

NEF = b"nef of the test"
FILES = REPOSITORY / "app" / "exchange" / "pack" / "files"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    for name in ("smoke.py", "preprocess.py"):
        shutil.copy(FILES / name, tmp_path)
    (tmp_path / "preprocess.json").write_text("{}")
    report = {"url": "http://127.0.0.1:1/jobs/1/smoke", "token": "t"}
    (tmp_path / "out.nef").write_bytes(NEF)
    manifest = {"toolchain": "host", "nef_sha256": sha256(NEF).hexdigest(), "tests": [], "report": report}
    (tmp_path / "pack.json").write_text(json.dumps(manifest))
    return tmp_path


def run(pack: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=pack, capture_output=True, text=True, check=False)


def test_a_missing_library_is_named_with_its_remedy(pack: Path) -> None:
    ended = run(pack, "-S", "smoke.py")
    assert (ended.returncode, ended.stderr) == (1, "numpy is missing: python -m pip install numpy onnxruntime\n")


@pytest.mark.slow
def test_a_flag_that_it_does_not_have_is_refused(pack: Path) -> None:
    ended = run(pack, "smoke.py", "--post")
    assert ended.returncode == 2
    assert "unrecognized arguments: --post" in ended.stderr


@pytest.mark.slow
def test_a_model_that_was_changed_since_it_was_packed_is_named_before_it_runs(pack: Path) -> None:
    (pack / "out.nef").write_bytes(b"damaged on its way")
    ended = run(pack, "smoke.py")
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith("FAIL out.nef is not the file that was packed: its SHA-256 is ")


def test_a_service_that_does_not_answer_is_no_traceback(
    pack: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(pack))
    spec = importlib.util.spec_from_file_location("smoke_of_pack", pack / "smoke.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.report("", 1.0)
    assert capsys.readouterr().out.startswith("not reported: 127.0.0.1:1 does not answer")
