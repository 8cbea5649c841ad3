"""Stopping a part that ends by itself at the same time."""

from __future__ import annotations

import os
import subprocess

import pytest

from app.standalone.process import Forked


def test_a_part_that_has_just_ended_and_been_reaped_needs_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as ended:
        pidfd = os.pidfd_open(ended.pid)
    monkeypatch.setattr(Forked, "is_running", lambda _: True)  # so it was when it was looked at
    try:
        Forked(ended.pid, pidfd, status=-1).ask_to_stop()
    finally:
        os.close(pidfd)
