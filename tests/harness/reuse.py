"""What is the same for every test of a process and takes long to make is made once."""

from __future__ import annotations

import atexit
import os
import ssl
from collections.abc import Callable
from typing import Any

import httpx._transports.default as transports

from tests.harness.paths import REPOSITORY

_create = transports.create_ssl_context
_contexts: dict[tuple[str | None, ...], ssl.SSLContext] = {}
OTHER_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
COMPILED = REPOSITORY / ".pytest_cache" / "templates"


def share_authorities() -> None:
    """httpx reads the list of certificate authorities for each client, also for `httpx.get`: 30 ms of CPU."""
    transports.create_ssl_context = _context  # type: ignore[attr-defined]


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


def describe_once() -> None:
    """The description of the API is made for each application, of the same operations: 60 ms of CPU."""
    from app import main

    make, made = main.document, dict[tuple[Any, ...], dict[str, Any]]()

    def described(operations: list[Any], **about: Any) -> dict[str, Any]:
        key = (*map(id, operations), *sorted(about.items()))  # operations are constants of the capabilities' modules
        if key not in made:
            made[key] = make(operations, **about)
        return made[key]

    main.document = described


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


def build_commands_once() -> None:
    """The command line is built of all its commands each time it is called: 30 ms of CPU."""
    from typer import main

    make, made = main.get_command, dict[int, tuple[object, Any]]()

    def built(described: Any) -> Any:
        key = id(described)
        if key not in made:
            made[key] = described, make(described)  # kept, so that no other gets its id
        return made[key][1]

    main.get_command = built


def _context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is not True or cert is not None:
        return _create(verify=verify, cert=cert, trust_env=trust_env)
    key = tuple(map(os.environ.get, OTHER_AUTHORITIES)) if trust_env else ()
    if key not in _contexts:
        _contexts[key] = _create(verify=True, cert=None, trust_env=trust_env)
    return _contexts[key]
