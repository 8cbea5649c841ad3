"""This host: folders, name, log."""

from __future__ import annotations

import socket
from pathlib import Path

from pydantic import Field

from app.kit.observability.logs import Format, Level
from app.settings.group import SettingsGroup


class HostSettings(SettingsGroup):
    """This host: folders, name, log."""

    data_dir: Path = Path.home() / ".local" / "share" / "modelmill"
    """Persistent data of this host: objects of the filesystem store, logs, run files."""
    work_dir: Path | None = None
    """Base of the work folders {work_dir}/{job_id}; default data_dir/work. Local to each worker host."""
    run_dir: Path | None = None
    """Slot and lock files of the processes on this host; default data_dir/run."""
    node_name: str = Field(default_factory=socket.gethostname, pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """Name of this host in worker names; must differ between hosts."""
    log_format: Format = "auto"
    """json, console (readable), or auto: readable on a terminal, JSON otherwise."""
    log_level: Level = "info"
    """Minimum level that is written; debug includes a line for every request."""

    @property
    def work(self) -> Path:
        return self.work_dir or self.data_dir / "work"

    @property
    def run(self) -> Path:
        return self.run_dir or self.data_dir / "run"
