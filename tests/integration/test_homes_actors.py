"""Homes in the workers: a change of a user is applied at once, by the actor that a message wakes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.accounts.model import Role
from app.bootstrap.accounts import MIGRATIONS
from app.bootstrap.container import assemble
from app.kit.sql.migrations import upgrade
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.sftp import SftpServer, has_client
from tests.harness.until import until


@pytest.mark.slow
def test_a_new_user_has_a_home_a_moment_later(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        container = assemble(deployment.settings())
        upgrade(container.database, MIGRATIONS)
        deployment.start([DRAMATIQ, "actors", "--queues", "periodic", "--processes", "1", "--threads", "1"])
        container.accounts.users.create("alice", Role.USER, by="test")
        home = tmp_path / "data" / "homes" / "users" / "alice"
        until((home / "datasets").is_dir, what="the home is there")
        until(lambda: container.homes.sftp.facts("alice").state.is_done, what="the backend was told")
        container.close()


def test_redis_being_away_keeps_nobody_from_making_users(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        container = assemble(deployment.settings())
        upgrade(container.database, MIGRATIONS)
        deployment.valkey.process.kill()
        container.accounts.users.create("alice", Role.USER, by="test")
        assert container.homes.outbox.state("alice").waiting == 1
        container.close()


@pytest.mark.sftp
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("setpriv") is None or not has_client(), reason="needs setpriv and OpenSSH's client")
def test_the_sftp_server_needs_no_rights_but_those_of_who_owns_the_files(tmp_path: Path) -> None:
    deployment = SftpServer(tmp_path, before=("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"))
    try:
        status = Path(f"/proc/{deployment.process.pid}/status").read_text()
        assert "CapEff:\t0000000000000000" in status
        home = deployment.user("alice")
        deployment.batch("alice", f"put {deployment.key}.pub datasets/key", "rename datasets/key models/key")
        assert (home / "models" / "key").is_file()
    finally:
        deployment.close()
