"""A program beside this one starts in one way, whatever it is to have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.kit.process.spawn import spawn

SESSION = [sys.executable, "-c", "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '')"]


@pytest.mark.parametrize("has_session", [True, False])
def test_it_leads_a_session_unless_it_is_to_be_of_our_group(has_session: bool) -> None:
    with spawn(SESSION, env=os.environ, stdout=subprocess.PIPE, has_session=has_session) as process:
        output, _ = process.communicate()
    assert output.split() == [str(has_session).encode(), b"True"]


def test_what_it_says_goes_where_it_is_to_go(tmp_path: Path) -> None:
    both = [sys.executable, "-c", "import sys; print('out', flush=True); print('err', file=sys.stderr)"]
    log = tmp_path / "log"
    log.write_text("before\n")
    spawn(both, env=os.environ, log=log).wait()
    assert log.read_text() == "before\nout\nerr\n"
    pipe = subprocess.PIPE
    with spawn(both, env=os.environ, stdout=pipe, stderr=pipe, has_session=False) as process:
        assert process.communicate() == (b"out\n", b"err\n")


def test_it_has_the_environment_that_it_is_given_and_its_input(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, sys; print(os.environ.get('A'), os.getcwd(), sys.stdin.read())"]
    with spawn(command, env={"A": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, folder=tmp_path) as process:
        output, _ = process.communicate(b"told")
    assert output.decode().split() == ["1", str(tmp_path), "told"]
