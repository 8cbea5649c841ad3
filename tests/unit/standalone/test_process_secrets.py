"""What each part of a stack is told of the secrets that whoever typed `up` has."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import secret_files
from app.standalone.data_folder import DataFolder
from app.standalone.process_secrets import environment_of, without_secrets
from app.standalone.stack import Plan, parts

NOT_OF_WORKERS = {
    "MODELMILL_SECRET_KEY": "signing",
    "MODELMILL_DATABASE_URL": "postgresql://all:hidden@host/db",
    "MODELMILL_METRICS_TOKEN": "hidden",
    "MODELMILL_SFTPGO_PASSWORD": "hidden",
    "MODELMILL_SFTPGO_API_KEY": "hidden",
    "MODELMILL_RAY_TOKEN": "hidden",
    "PGPASSWORD": "hidden",
}
OF_WORKERS = {
    "MODELMILL_REDIS_URL": "redis://:pass@host/0",
    "MODELMILL_S3_ACCESS_KEY": "id",
    "MODELMILL_S3_SECRET_KEY": "store",
    "PATH": "/usr/bin",
}
ALL = {**NOT_OF_WORKERS, **OF_WORKERS, "MODELMILL_TOKEN": "mm_of_the_operator"}
WORKERS = ("worker-0",)


@pytest.fixture
def told(tmp_path: Path):
    plan = Plan(DataFolder(tmp_path, tmp_path / "run"), "127.0.0.1", 8080, {"onnx": 1, "bie": 1, "nef": 1})
    by_name = {part.name: part for part in parts(plan, 8080, 2022)}

    def of(name: str, files: dict[str, str] | None = None, without: str = "", **more: str) -> dict[str, str]:
        given = {key: value for key, value in ALL.items() if key != without}
        return environment_of(by_name[name], {**given, **more}, files or {})

    return of


@pytest.mark.parametrize("name", WORKERS)
def test_workers_are_told_of_redis_and_the_store_and_nothing_else(told, name):
    assert told(name) == OF_WORKERS


@pytest.mark.parametrize("name", ["web", "control"])
def test_servers_are_told_all_but_the_operators_own_token(told, name):
    assert told(name) == {**NOT_OF_WORKERS, **OF_WORKERS}


def test_the_sftp_server_reads_accounts_and_signs_nothing(told):
    database = {name: ALL[name] for name in ("MODELMILL_DATABASE_URL", "PGPASSWORD", "PATH")}
    assert told("sftp") == database


def test_with_an_account_of_its_own_it_is_not_told_everybodys(told):
    own = {"MODELMILL_SFTP_DATABASE_URL": "postgresql://sftp:own@host/db"}
    assert told("sftp", **own) == {**own, "PATH": ALL["PATH"]}


def test_who_may_not_have_all_secrets_is_not_told_of_the_folder_with_them(told, tmp_path, monkeypatch):
    (tmp_path / "modelmill_s3_secret_key").write_text("from a file\n")
    (tmp_path / "modelmill_secret_key").write_text("signing\n")
    (tmp_path / "modelmill_sftp_database_url").write_text("postgresql://sftp:own@host/db\n")
    monkeypatch.setenv("MODELMILL_SECRETS_DIR", str(tmp_path))
    files, folder = secret_files(), {"MODELMILL_SECRETS_DIR": str(tmp_path)}
    in_file = "MODELMILL_S3_SECRET_KEY"
    worker, sftp, web = (told(name, files, in_file, **folder) for name in ("worker-0", "sftp", "web"))
    assert worker == {**OF_WORKERS, "MODELMILL_S3_SECRET_KEY": "from a file"}
    assert sftp == {"MODELMILL_SFTP_DATABASE_URL": "postgresql://sftp:own@host/db", "PATH": ALL["PATH"]}
    assert web["MODELMILL_SECRETS_DIR"] == str(tmp_path)
    assert "MODELMILL_S3_SECRET_KEY" not in web


def test_the_process_that_all_are_forked_from_is_told_no_secret():
    folder = {"MODELMILL_SECRETS_DIR": "/secrets", "MODELMILL_SFTP_DATABASE_URL": "postgresql://sftp:own@host/db"}
    assert without_secrets({**ALL, **folder}) == {"PATH": ALL["PATH"]}
