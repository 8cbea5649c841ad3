"""`ops/bench accounts`: the cost of finding the user of a request's token, with 10,000 users in SQLite.

Each check takes another user, so that no page of the database is unusually warm. The limit beside it is the bare query
on the same file.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from app.accounts import store
from app.accounts.credentials import SecretHasher, new_token, token_text
from app.accounts.model import Role, Scope, Token, User
from app.accounts.service import Accounts
from app.accounts.store.tables import api_tokens
from app.bootstrap.accounts import MIGRATIONS
from app.kit.clock import now, to_text
from app.kit.sql import Database
from app.kit.sql.migrations import upgrade
from tests.harness.deployment import percentile

USERS = 10_000
CHECKS = 5_000
AIM_P99_MS = 1.0
QUERY = """SELECT t.*, u.role, u.is_enabled FROM api_tokens t JOIN users u ON u.name = t.user_name WHERE token_id = ?"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "modelmill.db"
        database = Database(f"sqlite:///{path}")
        upgrade(database, MIGRATIONS)
        accounts = Accounts(database, SecretHasher("bench"))
        tokens = _populate(accounts)
        bare = sqlite3.connect(path)
        print(f"{USERS} users, {CHECKS} checks; p50 and p99 in ms")
        _show("a token's check", [_took_ms(accounts.tokens.check, text) for text in _spread(tokens)])
        sessions = [accounts.tokens.sign_in(text) for text in _spread(tokens)[:500]]
        _show("a session's check", [_took_ms(accounts.tokens.session, session) for session in sessions * 10])
        ids = [text.split("_")[1] for text in _spread(tokens)]
        _show("limit: the bare query", [_took_ms(lambda i: bare.execute(QUERY, (i,)).fetchone(), i) for i in ids])
        bare.close()
        database.close()
    print(f"aim: p99 of a token's check below {AIM_P99_MS} ms")


def _populate(accounts: Accounts) -> list[str]:
    """Creates a token for each user, marked as used a moment ago: otherwise the first check would record its use."""
    moment = to_text(now())
    texts, rows = list[str](), list[tuple[User, Token, str]]()
    for number in range(USERS):
        token_id, secret = new_token()
        name = f"user-{number:05}"
        token = Token(token_id, name, "bench", frozenset({Scope.READ, Scope.WRITE}), moment)
        rows.append((User(name, Role.USER, True, moment), token, accounts.tokens.hasher.hash(secret)))
        texts.append(token_text(token_id, secret))
    with accounts.database.write() as conn:
        for user, token, known_hash in rows:
            store.add_user(conn, user)
            store.add_token(conn, token, known_hash)
        conn.execute(sa.update(api_tokens).values(last_used_at=moment))
    return texts


def _spread(tokens: list[str]) -> list[str]:
    """Returns some of them, far from each other."""
    return [tokens[(at * 7919) % USERS] for at in range(CHECKS)]


def _took_ms(work: Callable[[str], object], argument: str) -> float:
    begin = time.perf_counter()
    work(argument)
    return 1000 * (time.perf_counter() - begin)


def _show(what: str, took_ms: list[float]) -> None:
    print(f"{what:24} p50 {percentile(took_ms, 0.5):.3f}   p99 {percentile(took_ms, 0.99):.3f}")
