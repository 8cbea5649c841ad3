"""What is the same for every test of a process and takes long to make is made once."""

from __future__ import annotations

import atexit
import os
import socket
import ssl
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import httpx._transports.default as transports

from tests.harness.paths import REPOSITORY

_create = transports.create_ssl_context
_contexts: dict[tuple[str | None, ...], ssl.SSLContext] = {}
OTHER_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
STATEMENTS = 5000
COMPILED = REPOSITORY / ".pytest_cache" / "templates"


def share_authorities() -> None:
    """httpx reads the list of certificate authorities for each client, also for `httpx.get`: 30 ms of CPU."""
    transports.create_ssl_context = _context


def share_templates() -> None:
    """Each process compiles the templates it shows: 12 ms of CPU for each. What is compiled is kept from run to run,
    as that of modules is, and found by the text of the template."""
    from jinja2 import FileSystemBytecodeCache

    from app.kit.web.languages import NAMES
    from app.kit.web.templates import environment

    COMPILED.mkdir(parents=True, exist_ok=True)
    for language in NAMES:
        environment(language).bytecode_cache = FileSystemBytecodeCache(str(COMPILED))


def hash_quickly() -> None:
    """The password of SFTP is hashed for each new user, of which each application has one: 40 ms of CPU. The processes
    of a deployment hash as the product does."""
    from argon2 import PasswordHasher

    from app.homes.sftp import credentials

    credentials._HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def read_set_variables() -> None:
    """The source of settings looks at each of them, although most are not in the environment: 6 ms of CPU."""
    from pydantic_settings import EnvSettingsSource

    read = EnvSettingsSource.__call__

    def of_set(self: Any) -> dict[str, Any]:
        prefix, fields = self.env_prefix.lower(), self.settings_cls.model_fields
        self.settings_cls = SimpleNamespace(
            model_fields={name: field for name, field in fields.items() if f"{prefix}{name}" in self.env_vars}
        )
        return read(self)

    EnvSettingsSource.__call__ = of_set  # type: ignore[method-assign]


def look_up_redis_once() -> None:
    """Each client of Redis looks its package up, to tell the server its version: 2 ms of CPU."""
    from redis import utils

    utils.get_lib_version = cache(utils.get_lib_version)


def keep_statements() -> None:
    """Each database compiles its statements anew, of which a test executes a hundred: 2 ms of CPU each. The next one
    takes what one that is closed has compiled, with the dialect that this belongs to."""
    from app.kit.sql import encryption
    from app.kit.sql.database import Database

    begin, end = Database.__init__, Database.close
    kept: dict[bool, list[tuple[Any, Any]]] = {True: [], False: []}

    def begun(self: Any, *about: Any, **named: Any) -> None:
        begin(self, *about, **named)
        engine = self._engine
        engine._compiled_cache.capacity = STATEMENTS
        if kept[self.is_sqlite]:
            engine.dialect, engine._compiled_cache = kept[self.is_sqlite].pop()
            engine.pool._dialect = engine.dialect
            encryption.use(engine.dialect, self.sealer)

    def ended(self: Any) -> None:
        end(self)
        if self._engine._compiled_cache and not hasattr(self, "is_ended"):
            self.is_ended = True
            kept[self.is_sqlite].append((self._engine.dialect, self._engine._compiled_cache))

    Database.__init__ = begun  # type: ignore[method-assign]
    Database.close = ended  # type: ignore[method-assign]


def describe_once() -> None:
    """The description of the API is made for each application, of the same operations: 60 ms of CPU."""
    from app import main

    make, made = main.document, dict[tuple[Any, ...], dict[str, Any]]()

    def described(operations: list[Any], **about: Any) -> dict[str, Any]:
        key = (*map(id, operations), *sorted(about.items()))  # operations are constants of the capabilities' modules
        if key not in made:
            made[key] = make(operations, **about)
        return made[key]

    main.document = described  # type: ignore[assignment]


def share_fork_server() -> Callable[[], None]:
    """Each application starts a fork server for its checks: 400 ms of CPU. Those of this process share one, which has
    loaded what checks and stages need: without that each run loads it again, for 200 ms of CPU.

    Returns:
        Starts it now, for those of the processes, too, that this one forks.
    """
    from app.bootstrap import container
    from app.conversion.toolchains import libraries
    from app.kit.sandbox.runner import Sandbox

    one = Sandbox(libraries=(*libraries.of_stages(()), "onnxruntime"))
    atexit.register(one.close)

    class Sharing(Sandbox):
        def _order(self, descriptors: list[int]) -> None:
            one._order(descriptors)

        def _ensure_server(self) -> socket.socket:
            with one._lock:
                return one._ensure_server()

    container.Sandbox = Sharing  # type: ignore[misc]

    def begin() -> None:
        with one._lock:
            one._ensure_server()
        assert one._server is not None
        atexit.register(one._server.kill)  # before it is waited for: what a test has forked and left may know it, too
        os.register_at_fork(after_in_child=lambda: setattr(one, "_server", _OfAnother()))

    return begin


class _OfAnother:
    """The process of a fork server that is no child of this process: whether it runs shows when it is used."""

    def poll(self) -> None:
        return

    def wait(self) -> int:
        return 0


def collect_constants() -> None:
    """Hypothesis draws constants of the product, too: each process parses its modules for them, for a second."""
    from hypothesis.internal.conjecture import providers

    providers._get_local_constants()


def build_commands_once() -> None:
    """The command line is built of all its commands each time it is called: 30 ms of CPU."""
    from typer import main

    make, made = main.get_command, dict[int, tuple[object, Any]]()

    def built(described: Any) -> Any:
        key = id(described)
        if key not in made:
            made[key] = described, make(described)  # kept, so that no other gets its id
        return made[key][1]

    main.get_command = built  # type: ignore[assignment]


def _context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is not True or cert is not None:
        return _create(verify=verify, cert=cert, trust_env=trust_env)
    key = tuple(map(os.environ.get, OTHER_AUTHORITIES)) if trust_env else ()
    if key not in _contexts:
        _contexts[key] = _create(verify=True, cert=None, trust_env=trust_env)
    return _contexts[key]
