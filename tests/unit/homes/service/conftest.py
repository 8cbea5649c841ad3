"""SFTPGo's stand-in, one for the file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.standins.sftpgo import SftpgoStandin


@pytest.fixture(scope="module")
def running() -> Iterator[SftpgoStandin]:
    made = SftpgoStandin()
    yield made
    made.close()


@pytest.fixture
def standin(running: SftpgoStandin) -> SftpgoStandin:
    running.forget()
    return running
