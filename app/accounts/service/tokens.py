"""Issues, revokes and identifies tokens and sessions, and checks that this process has the web server's secret key."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from sqlalchemy import Connection

from app.accounts import store
from app.accounts.credentials import SecretHasher, new_session, new_token, parts_of, token_text
from app.accounts.errors import BadToken, TokenNotFound, TokenRefused, UserNotFound, WrongSecretKey
from app.accounts.model import MAX_LABEL, Revocation, Scope, Token, User, scopes_of
from app.accounts.service.audit_log import note
from app.kit.clock import from_text, now, to_text
from app.kit.sql import Database
from app.kit.sql.errors import DatabaseUnavailable

LAST_USE_EVERY_S = 60
MAX_TTL_S = 100 * 366 * 86400
FACT = "secret key fingerprint"
logger = logging.getLogger(__name__)


class Tokens:
    def __init__(self, database: Database, hasher: SecretHasher, *, session_s: int) -> None:
        self.database = database
        self.hasher = hasher
        self.session_s = session_s

    def issue(
        self,
        name: str,
        *,
        by: str,
        label: str = "",
        scopes: Iterable[Scope] | None = None,
        ttl_s: int | None = None,
        within: Token | None = None,
        made_by: str | None = None,
    ) -> tuple[Token, str]:
        """Issues a token. Every token may read.

        Args:
            within: The requesting token; the new one may do no more and live no longer.
            made_by: Id of the requesting token, if it does not limit the new one: an administrator's.

        Returns:
            The token and its text, which is shown only once.

        Raises:
            UserNotFound, BadToken: The request is invalid.
            TokenRefused: The requesting token was revoked meanwhile.
        """
        made_by = within.token_id if within is not None else made_by
        if len(label) > MAX_LABEL or (ttl_s is not None and not 0 < ttl_s <= MAX_TTL_S):
            raise BadToken(
                f"A label may have {MAX_LABEL} characters, and a token lives between a second and a century."
            )
        moment = now()
        ends = to_text(moment + timedelta(seconds=ttl_s)) if ttl_s else None
        with self.database.write() as conn:
            user = store.lock_user(conn, name)
            if user is None:
                raise UserNotFound(f"There is no user {name}.", hint="Look for the name in the list of users.")
            if made_by and not store.lock_token(conn, made_by, to_text(moment)):
                raise TokenRefused
            most = scopes_of(user.role) if within is None else scopes_of(user.role) & within.scopes
            granted = most if scopes is None else frozenset(scopes) | {Scope.READ}
            if granted - most:
                raise BadToken(
                    f"This token of {name} may have these scopes: {words(most)}.",
                    hint="Only administrators' tokens may have the scope admin; a token makes none that may do more.",
                )
            if within is not None and within.expires_at is not None:
                ends = min(ends or within.expires_at, within.expires_at)
            token_id, secret = new_token()
            token = Token(token_id, name, label.strip(), granted, to_text(moment), ends, made_by=made_by or None)
            store.add_token(conn, token, self.hasher.hash(secret))
            note(conn, by, "token.issued", f"user:{name}", {"token_id": token_id, "scopes": words(granted)})
        return token, token_text(token_id, secret)

    def of(self, name: str) -> list[Token]:
        with self.database.read() as conn:
            return store.list_tokens(conn, name)

    def valid_made(self, name: str, *, only_own: bool = False) -> dict[str, int]:
        """For each token of the user that created others: how many of those, and of their descendants, are valid.

        Args:
            only_own: Exclude tokens of other users, which an administrator's token may have created.
        """
        at = to_text(now())
        with self.database.read() as conn:
            tokens = store.list_tokens(conn, name)
            by_maker = _list_valid_made(conn, name, [token.token_id for token in tokens], at, only_own=only_own)
        return {token_id: len(tokens) for token_id, tokens in by_maker.items()}

    def revoke(
        self, name: str, token_id: str, *, by: str, with_made: bool = False, only_own: bool = False
    ) -> Revocation:
        """Revokes a token of the user and ends the sessions it started.

        Args:
            with_made: Also revoke the tokens it created, and their descendants.
            only_own: Neither revoke nor report other users' tokens, which an administrator's token may have created.

        Raises:
            TokenNotFound: The user has no such token, or it is already revoked.
        """
        at = to_text(now())
        also_revoked: list[str] = []
        with self.database.write() as conn:
            if not store.revoke_token(conn, name, token_id, at):
                raise TokenNotFound(f"{name} has no valid token {token_id}.", hint="The list of tokens has their ids.")
            valid = _list_valid_made(conn, name, [token_id], at, only_own=only_own).get(token_id, [])
            while with_made and valid:  # again, because one of them may have created another just before
                for token in valid:
                    store.revoke_token(conn, token.user_name, token.token_id, at)
                    detail = {"token_id": token.token_id, "made_by": token.made_by}
                    note(conn, by, "token.revoked", f"user:{token.user_name}", detail)
                    also_revoked.append(token.token_id)
                valid = _list_valid_made(conn, name, [token_id], at, only_own=only_own).get(token_id, [])
            note(conn, by, "token.revoked", f"user:{name}", {"token_id": token_id})
        return Revocation(token_id, tuple(also_revoked), tuple(token.token_id for token in valid))

    def check(self, text: str) -> tuple[User, Token]:
        """Returns the user and the token of this text.

        Raises:
            TokenRefused: It is no valid token, whatever the cause.
        """
        parts = parts_of(text)
        if parts is None:
            raise TokenRefused
        token_id, secret = parts
        moment = now()
        with self.database.read() as conn:
            row = store.find_token(conn, token_id)
        if row is None:
            self.hasher.hash(secret)  # takes as long as for an existing one
            raise TokenRefused
        token, user, secret_hash = row
        if not self.hasher.agrees(secret, secret_hash) or not token.holds(moment) or not user.is_enabled:
            raise TokenRefused
        self._note_use(token, moment)
        return user, token

    def sign_in(self, text: str) -> str:
        """Starts a session with the text of a token. Returns its id, for the cookie.

        Raises:
            TokenRefused: It is no valid token.
        """
        user, token = self.check(text)
        session, moment = new_session(), now()
        ends = to_text(moment + timedelta(seconds=self.session_s))
        with self.database.write() as conn:
            store.delete_sessions_before(conn, to_text(moment))
            store.add_session(
                conn,
                self.hasher.hash(session),
                token.token_id,
                created_at=to_text(moment),
                expires_at=min(ends, token.expires_at or ends),
            )
            note(conn, user.name, "session.begun", f"user:{user.name}", {"token_id": token.token_id})
        return session

    def session(self, session: str) -> tuple[User, Token]:
        """Returns the user and the token of a session.

        Raises:
            TokenRefused: One of them, or the session, is not valid.
        """
        moment = now()
        with self.database.read() as conn:
            row = store.find_session(conn, self.hasher.hash(session))
        if row is None:
            raise TokenRefused
        token, user, expires_at = row
        if expires_at <= to_text(moment) or not token.holds(moment) or not user.is_enabled:
            raise TokenRefused
        self._note_use(token, moment)
        return user, token

    def sign_out(self, session: str) -> None:
        with self.database.write() as conn:
            store.delete_session(conn, self.hasher.hash(session))

    def _note_use(self, token: Token, moment: datetime) -> None:
        """At most once a minute, because a write per request would cost too much. A failure refuses nobody."""
        last = from_text(token.last_used_at) if token.last_used_at else None
        if last is not None and (moment - last).total_seconds() <= LAST_USE_EVERY_S:
            return
        try:
            with self.database.write() as conn:
                store.token_used(conn, token.token_id, to_text(moment))
        except DatabaseUnavailable:
            return


class KeyCheck:
    """Whether this process has the web server's secret key, with which tokens are hashed and secrets encrypted.

    The database has its fingerprint.
    """

    def __init__(self, database: Database, hasher: SecretHasher) -> None:
        self._database = database
        self._hasher = hasher

    def remember(self, conn: Connection) -> None:
        """Stores the fingerprint of the web server's key when it starts."""
        fingerprint = store.fact(conn, FACT)
        if fingerprint == self._hasher.fingerprint:
            return
        store.remember_fact(conn, FACT, self._hasher.fingerprint)
        if fingerprint is not None and store.has_tokens(conn):
            logger.warning(
                "The secret key is another than at the last start: no token or session made before is accepted."
            )

    def check(self) -> None:
        """Checks the key of this process, for one that makes tokens or reads secrets beside the web server.

        Raises:
            WrongSecretKey: The web server has another one: it would never accept a token hashed with this one.
        """
        with self._database.read() as conn:
            fingerprint = store.fact(conn, FACT)
        if fingerprint not in (None, self._hasher.fingerprint):
            raise WrongSecretKey(
                "The web works with another secret key: it would never accept what is made with this one.",
                hint="Set MODELMILL_SECRET_KEY to the web's, or give the --data-dir of `modelmill up`.",
            )


def _list_valid_made(
    conn: Connection, name: str, token_ids: Collection[str], at: str, *, only_own: bool
) -> dict[str, list[Token]]:
    by_maker = store.valid_made_by(conn, token_ids, at)
    if not only_own:
        return by_maker
    own = {maker: [token for token in tokens if token.user_name == name] for maker, tokens in by_maker.items()}
    return {maker: tokens for maker, tokens in own.items() if tokens}


def words(scopes: Iterable[Scope]) -> str:
    return " ".join(sorted(scopes))
