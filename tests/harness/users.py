"""Users of a service that demands accounts: made in its database, as `modelmill users` makes them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.kit.sql import Database
from app.main import create_app
from app.settings import Settings
from tests.harness.api import Api
from tests.harness.deployment import Deployment
from tests.harness.migrated import migrated_data

OURS = {"Sec-Fetch-Site": "same-origin"}
"""What a browser says of what one of our own pages sends."""
ADDRESSES = (f"127.0.1.{number}" for number in itertools.count(1))
"""Of clients: what fails at one counts for no other."""


@dataclass(frozen=True)
class Person:
    name: str
    token: str
    url: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def api(self) -> Api:
        client = Api(self.url)
        client.http.headers.update(self.bearer)
        return client

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        """Signed in, with the session's cookie; what it sends comes from our own pages."""
        page = {"Accept": "text/html"}
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False, headers=page) as client:
            answer = client.post("/ui/login", data={"token": self.token}, headers=OURS)
            assert answer.status_code == 303, answer.text
            client.headers.update(OURS)
            yield client


class Within:
    """Asks an application in this process, as somebody whose request arrives at `base`."""

    def __init__(self, app: Starlette, base: str = "http://127.0.0.1", **headers: str) -> None:
        self.app, self.base, self.headers = app, base, headers

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask(method, path, options))

    async def _ask(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url=self.base, headers=self.headers) as client:
            return await client.request(method, path, **options)


@contextmanager
def within(settings: Settings) -> Iterator[Within]:
    """The application of these settings, ready to be asked."""
    migrated_data(settings)
    app = create_app(settings)
    app.state.container.prepare()
    yield Within(app)
    app.state.container.close()


@contextmanager
def accounts_of(deployment: Deployment) -> Iterator[Accounts]:
    database = Database(deployment.settings().database)
    try:
        yield Accounts(database, SecretHasher(deployment.env["MODELMILL_SECRET_KEY"]))
    finally:
        database.close()


def person(deployment: Deployment, name: str, role: Role = Role.USER, **token: Any) -> Person:
    """A user, made on first use, with a new token."""
    with accounts_of(deployment) as accounts:
        if name not in {user.name for user, _ in accounts.users.page(text=name)}:
            accounts.users.create(name, role, by="test")
        return Person(name, accounts.tokens.issue(name, by="test", **token)[1], deployment.url)


def changed(text: str) -> str:
    """Another secret for the same token."""
    return text[:-1] + ("A" if text[-1] != "A" else "B")


def make_users(deployment: Deployment, *names: str) -> None:
    """As an administrator makes them, so that SFTP is told of them too."""
    with person(deployment, "root-admin", Role.ADMIN).api() as api:
        for name in names:
            assert api.http.post("/api/v2/users", json={"name": name}).status_code == 201
