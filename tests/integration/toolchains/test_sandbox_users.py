"""Both toolchains do their work inside the sandbox, whoever runs it."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY
from tests.harness.toolchain_targets import in_sandbox

TOOLCHAINS = ("host", "kneron")
NOBODY = pwd.getpwnam("nobody")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups")
CAN_RUN = "import onnxruntime, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
CONVERT = """
import json, sys
from pathlib import Path
from tests.harness.toolchain_targets import in_sandbox
print(json.dumps(in_sandbox(sys.argv[1], Path(sys.argv[2]))))
"""
SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize("toolchain", TOOLCHAINS)
def test_a_model_is_converted_by_who_runs_the_tests(toolchain: str, tmp_path: Path) -> None:
    result = in_sandbox(toolchain, tmp_path)
    assert result["size_bytes"] > 0
    assert result["user"] == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; the test above is of another then")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux has no setpriv here")
@pytest.mark.parametrize("toolchain", TOOLCHAINS)
def test_a_model_is_converted_by_a_user_without_rights(toolchain: str) -> None:
    libraries = [entry for entry in sys.path if entry.endswith("-packages")]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *libraries])}

    def run(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*AS_NOBODY, python, "-B", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)

    pythons = [path for path in (sys.executable, SYSTEM_PYTHON) if run(path, "-c", CAN_RUN).returncode == 0]
    if not pythons:
        pytest.skip("no interpreter here can be run by others, with these libraries")
    work = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        os.chown(work, NOBODY.pw_uid, NOBODY.pw_gid)
        done = run(pythons[0], "-c", CONVERT, toolchain, str(work))
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["size_bytes"] > 0
        assert result["user"] == NOBODY.pw_uid
    finally:
        shutil.rmtree(work)
