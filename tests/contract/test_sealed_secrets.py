"""One suite over both databases: secrets of services, video jobs and nodes are nowhere in plain text, those of an older
version are encrypted when the web starts, and a wrong key says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.accounts.credentials import SecretHasher
from app.accounts.errors import WrongSecretKey
from app.accounts.service import Accounts
from app.bootstrap.accounts import MIGRATIONS
from app.bootstrap.encryption import encrypt_secrets, renew_secrets
from app.joint_inference.service.services import Services
from app.kit.sql import Database, Sealer, migrations
from app.kit.sql.errors import OtherSecretKey, SecretKeyNotSet
from app.nodes.model import Side, WorkKey
from app.nodes.service import Nodes
from app.video import store as video_store
from tests.contract.test_video_store import job
from tests.harness.databases import database, empty, url
from tests.harness.joint.deployment import resource

__all__ = ["database", "empty", "url"]
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
KEY = WorkKey("jointinferenceservices", "u1", "edge")
VIDEO_SECRET = "video-secret-2f6c1d"
ORDER_SECRET = "order-secret-9b7e4a"
UID = "GLOBAL_ID_1.SUB_ID_1"
RAW = ("SELECT secret FROM joint_services", "SELECT secret FROM video_jobs", "SELECT content FROM node_orders")


def nodes_of(database: Database) -> Nodes:
    return Nodes(database, SecretHasher("k"), lambda _: None)


def services_of(database: Database) -> Services:
    return Services(database, nodes_of(database), lambda _: None, lambda: None)


@contextmanager
def opened(url: str, key: str | None) -> Iterator[Accounts]:
    """As a process with this key has it."""
    database = Database(url, Sealer(key))
    accounts = Accounts(database, SecretHasher(key or "made up"))
    database.sealer.confirm = accounts.key.check
    try:
        yield accounts
    finally:
        database.close()


def filled(database: Database) -> str:
    """With a service, a video job and an order. Secret of the service."""
    nodes = nodes_of(database)
    nodes.register("edge0", Side.EDGE, now=NOW)
    service = services_of(database).create(
        "alice", resource("gate", edge="edge0", cloud="edge0", small="s", big="b"), now=NOW
    )
    with database.write() as conn:
        video_store.add_job(conn, video_store.StoredJob(replace(job(UID), secret=VIDEO_SECRET), 1))
        nodes.order(conn, "edge0", KEY, namespace="n", name="gate", generation=1, content={"secret": ORDER_SECRET})
    return service.secret


def raw(database: Database) -> list[str]:
    """What the columns hold, read without their type."""
    with database.read() as conn:
        return [str(text) for query in RAW for text in conn.execute(sa.text(query)).scalars()]


def read(database: Database) -> list[str]:
    """The three secrets, as the product reads them."""
    with database.read() as conn:
        kept = video_store.get(conn, UID)
        (order,) = nodes_of(database).orders_of(conn, KEY.kind, KEY.uid)
    assert kept is not None
    return [services_of(database).get("alice", "default", "gate").secret, kept.job.secret, order.content["secret"]]


def put_in_plain(database: Database, secrets: list[str]) -> None:
    """As an older version left it."""
    plain = (secrets[0], secrets[1], f'{{"secret": "{secrets[2]}"}}')
    with database.write() as conn:
        for query, text in zip(RAW, plain, strict=True):
            _, column, _, table = query.split()
            conn.execute(sa.text(f"UPDATE {table} SET {column} = :text"), {"text": text})


def files_of(url: str) -> bytes:
    """All that lies on the disk of an SQLite database."""
    path = Path(url.removeprefix("sqlite:///"))
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


def test_no_secret_stands_in_the_database_and_all_are_read_from_it(database: Database, url: str) -> None:
    secrets = [filled(database), VIDEO_SECRET, ORDER_SECRET]
    assert read(database) == secrets
    stored = "\n".join(raw(database)).encode()
    if url.startswith("sqlite"):
        stored += files_of(url)
    assert not [secret for secret in secrets if secret.encode() in stored]


def test_secrets_of_an_older_version_are_read_and_encrypted_when_the_web_starts(database: Database, url: str) -> None:
    secrets = [filled(database), VIDEO_SECRET, ORDER_SECRET]
    put_in_plain(database, secrets)
    assert read(database) == secrets
    with opened(url, "a key") as web:
        encrypt_secrets(web)
        encrypt_secrets(web)
    assert read(database) == secrets
    assert not [text for text in raw(database) for secret in secrets if secret in text]
    if url.startswith("sqlite"):
        assert not [secret for secret in secrets if secret.encode() in files_of(url)], "nor where they once were"


def test_the_web_does_not_start_with_another_key_or_none_and_the_right_one_goes_on(
    database: Database, url: str
) -> None:
    with opened(url, "a key") as web:
        encrypt_secrets(web)
    secrets = [filled(database), VIDEO_SECRET, ORDER_SECRET]
    for key, error in (("another", OtherSecretKey), (None, SecretKeyNotSet)):
        with opened(url, key) as web, pytest.raises(error, match="encrypted"):
            encrypt_secrets(web)
    with opened(url, "a key") as web:
        encrypt_secrets(web)
        web.key.check()
    assert read(database) == secrets


def test_a_controller_with_another_key_writes_nothing_that_the_web_could_not_read(database: Database, url: str) -> None:
    with opened(url, "a key") as web:
        encrypt_secrets(web)
    nodes_of(database).register("edge0", Side.EDGE, now=NOW)
    with opened(url, "another") as controller:
        nodes = nodes_of(controller.database)
        with pytest.raises(WrongSecretKey), controller.database.write() as conn:
            nodes.order(conn, "edge0", KEY, namespace="n", name="gate", generation=1, content={"secret": "s"})
    assert raw(database) == []


def test_a_lost_key_costs_the_secrets_and_nothing_else(database: Database, url: str) -> None:
    secrets = [filled(database), VIDEO_SECRET, ORDER_SECRET]
    with opened(url, "the new one") as web:
        assert renew_secrets(web) == 3
        encrypt_secrets(web)
        service = services_of(web.database).get("alice", "default", "gate")
        assert service.secret not in ("", secrets[0])
        with web.database.read() as conn:
            kept = video_store.get(conn, UID)
            assert kept is not None and kept.job.secret not in ("", VIDEO_SECRET)
            assert nodes_of(web.database).orders_of(conn, KEY.kind, KEY.uid) == [], "it is given anew"
    with opened(url, "the new one") as web:
        assert renew_secrets(web) == 0


def test_the_version_before_has_secrets_that_it_can_read_and_nodes_are_told_anew(database: Database, url: str) -> None:
    secret = filled(database)
    migrations.move(database, MIGRATIONS, "0006")
    service_secret, video_secret = raw(database)
    assert service_secret.isascii() and 0 < len(service_secret) <= 64 and service_secret != secret
    assert 0 < len(video_secret) <= 64
    migrations.upgrade(database, MIGRATIONS)
    with opened(url, "a key") as web:
        encrypt_secrets(web)
    assert services_of(database).get("alice", "default", "gate").secret == service_secret
