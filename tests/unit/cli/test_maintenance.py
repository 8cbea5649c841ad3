"""`modelmill db renew-secrets`, where the secret key is another one than the database was encrypted with."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from typer.testing import CliRunner

from app.accounts.credentials import SecretHasher
from app.bootstrap.accounts import open_accounts, settings_in
from app.bootstrap.encryption import encrypt_secrets
from app.cli.maintenance import app
from app.joint_inference.service.services import Services
from app.kit.sql import Database, Sealer
from app.nodes.service import Nodes
from tests.harness.joint.deployment import resource
from tests.harness.migrated import migrated_file

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def services_of(database: Database) -> Services:
    return Services(database, Nodes(database, SecretHasher("k"), lambda _: None), lambda _: None, lambda: None)


def test_the_folders_own_key_becomes_the_installations(tmp_path: Path) -> None:
    migrated_file(tmp_path / "modelmill.db")
    with closing(Database(f"sqlite:///{tmp_path / 'modelmill.db'}", Sealer("a lost key"))) as database:
        gate = resource("gate", edge="e", cloud="c", small="s", big="b")
        former = services_of(database).create("alice", gate, now=NOW)
    ran = CliRunner().invoke(app, ["renew-secrets", "--data-dir", str(tmp_path)])
    assert ran.exit_code == 0 and ran.stdout.startswith("1 secrets are new"), ran.output
    accounts = open_accounts(settings_in(tmp_path))
    with closing(accounts.database):
        encrypt_secrets(accounts)
        assert services_of(accounts.database).get("alice", "default", "gate").secret not in ("", former.secret)
