"""SFTPGo's stand-in, one for the file, and hashes of passwords that cost nothing: there are many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from app.homes.sftp import credentials
from tests.standins.sftpgo import SftpgoStandin


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture(scope="module")
def running() -> Iterator[SftpgoStandin]:
    made = SftpgoStandin()
    yield made
    made.close()


@pytest.fixture
def standin(running: SftpgoStandin) -> SftpgoStandin:
    running.forget()
    return running
