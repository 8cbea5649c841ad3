"""What a conversion's process gets of the process that starts it: no keys, no further rights."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.conversion.toolchains.base import Progress
from app.kit.sandbox.runner import AS_ROOT, Limits, Sandbox

SECRETS = {
    "MODELMILL_S3_SECRET_KEY": "s3-hidden",
    "MODELMILL_S3_ACCESS_KEY": "id-hidden",
    "MODELMILL_SECRET_KEY": "key-hidden",
    "MODELMILL_REDIS_URL": "redis://:hidden@127.0.0.1:1/0",
    "AWS_SECRET_ACCESS_KEY": "aws-hidden",
    "HTTPS_PROXY": "http://me:hidden@proxy",
    "SOME_TOKEN": "hidden",
    "OMP_TOKEN": "not a secret of ours",
}


def look(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Runs in the child: what it finds about itself."""
    return {"own": dict(os.environ), "status": Path("/proc/self/status").read_text()}


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    sandbox = Sandbox()
    try:
        target = "tests.integration.toolchains.test_sandbox_rights:look"
        result = sandbox.run(target, {}, work_dir=tmp_path, limits=Limits(1 << 30, 30, 1)).result
        assert sandbox._server
        server = Path(f"/proc/{sandbox._server.pid}")
        yield {**result, "server": (server / "environ").read_text(), "command": (server / "cmdline").read_text()}
    finally:
        sandbox.close()


def test_no_secret_is_in_the_environment_of_a_child_or_of_its_server(seen: dict[str, Any]) -> None:
    assert "hidden" not in str(seen)
    assert not [name for name in seen["own"] if name.startswith(("MODELMILL_", "AWS_"))]
    assert seen["own"]["PATH"] == os.environ["PATH"]


def test_a_child_can_win_no_rights_by_what_it_starts(seen: dict[str, Any]) -> None:
    assert "NoNewPrivs:\t1" in seen["status"]
    for kind in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
        assert f"{kind}:\t{0:016x}" in seen["status"] or os.geteuid(), "root gives its rights up"


@pytest.mark.parametrize(("uid", "is_told"), [(0, True), (1000, False)])
def test_whoever_runs_it_as_root_is_told_what_that_means(
    uid: int, is_told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    sandbox = Sandbox()
    with caplog.at_level(logging.WARNING):
        sandbox.start()
    sandbox.close()
    assert (AS_ROOT in caplog.text) is is_told
