"""Where Debian's Chromium is, and how it is started: for tests and measurements."""

from __future__ import annotations

from shutil import which

SHELL = "chromium-headless-shell"
"""Renders as Chromium does for half of its CPU time, which goes into a window and its controls that nobody sees."""
CHROMIUM = which(SHELL) or which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",  # a process for each page that is opened is time, too
    "--in-process-gpu",
    "--js-flags=--no-opt",  # no script runs long enough to be worth a compiler's time
]
