"""`modelmill up` beyond this machine: nobody is let in without a token, and the way to the first one is said."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.harness.migrated import migrated_file
from tests.integration.test_accounts import TOKEN, modelmill
from tests.integration.test_quickstart import Up

pytestmark = pytest.mark.slow
BOTH = ("--host", "0.0.0.0", "--workers", "onnx=0,bie=0,nef=0")


def test_the_first_start_beyond_this_machine_says_how_to_make_an_administrator_until_ctrl_c(tmp_path: Path) -> None:
    migrated_file(tmp_path / "data" / "modelmill.db")
    stack = Up(tmp_path / "data", *BOTH)
    try:
        assert httpx.get(f"{stack.url}/jobs", trust_env=False).status_code == 401
        assert "modelmill users create" in httpx.get(f"{stack.url}/ui/login", trust_env=False).text
        place = ("--data-dir", str(stack.data_dir))
        assert modelmill("users", "create", "boss", "--admin", *place).returncode == 0
        token = modelmill("users", "token", "boss", *place).stdout.strip()
        assert TOKEN.fullmatch(token)
        bearer = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{stack.url}/api/v2/users", headers=bearer, trust_env=False).status_code == 200
    finally:
        output = stack.close()
    assert f"modelmill users create NAME --admin --data-dir {stack.data_dir}" in output
    assert f"modelmill users token NAME --data-dir {stack.data_dir}" in output
    assert stack.process.returncode == 0
    assert "Everything is stopped." in output
    assert "Traceback" not in output
    assert stack.pids() == []


def test_the_sample_needs_a_token_there(tmp_path: Path) -> None:
    done = modelmill("up", "--once", "--data-dir", str(tmp_path), *BOTH)
    assert done.returncode == 2 and "MODELMILL_TOKEN" in done.stderr
