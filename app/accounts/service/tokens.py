"""Hands out tokens and sessions, takes them back, and says whose one is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from sqlalchemy import Connection

from app.accounts import store
from app.accounts.errors import BadToken, TokenNotFound, TokenRefused, UserNotFound
from app.accounts.model import MAX_LABEL, Revocation, Role, Scope, Token, User, scopes_of
from app.accounts.service.audit_log import note
from app.accounts.token_hashing import SecretHasher, new_session, new_token, parts_of, token_text
from app.kit.clock import from_text, now, to_text
from app.kit.sql import Database
from app.kit.sql.errors import DatabaseUnavailable

LAST_USE_EVERY_S = 60
MAX_TTL_S = 100 * 366 * 86400


class Tokens:
    def __init__(self, database: Database, keeper: SecretHasher, *, session_s: int) -> None:
        self.database = database
        self.keeper = keeper
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
        """Issue a token. Every token may read.

        Args:
            within: The token that asks for another one, which then may do no more and live no longer.
            made_by: Id of the token that asks, where it does not limit the new one: an administrator's.

        Returns:
            The token and its text, which is told this once.

        Raises:
            UserNotFound, BadToken: For what was asked.
            TokenRefused: If the token that asks was revoked meanwhile.
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
            wanted = most if scopes is None else frozenset(scopes) | {Scope.READ}
            if wanted - most:
                raise BadToken(
                    f"This token of {name} may have these scopes: {words(most)}.",
                    hint="Only administrators' tokens may have the scope admin; a token makes none that may do more.",
                )
            if within is not None and within.expires_at is not None:
                ends = min(ends or within.expires_at, within.expires_at)
            token_id, secret = new_token()
            token = Token(token_id, name, label.strip(), wanted, to_text(moment), ends, made_by=made_by or None)
            store.add_token(conn, token, self.keeper.hash(secret))
            note(conn, by, "token.issued", f"user:{name}", {"token_id": token_id, "scopes": words(wanted)})
        return token, token_text(token_id, secret)

    def of(self, name: str) -> list[Token]:
        with self.database.read() as conn:
            return store.list_tokens(conn, name)

    def valid_made(self, name: str) -> dict[str, int]:
        """For each token of the user that made some: how many of those, and of what those made, are valid."""
        at = to_text(now())
        with self.database.read() as conn:
            tokens = store.list_tokens(conn, name)
            made = _revocable_made(conn, name, [token.token_id for token in tokens], at)
        return {token_id: len(tokens) for token_id, tokens in made.items()}

    def revoke(self, name: str, token_id: str, *, by: str, with_made: bool = False) -> Revocation:
        """Revoke a token of the user and end the sessions it began.

        Args:
            with_made: Also revoke what it made, and what those made. An administrator's may be other users'.

        Raises:
            TokenNotFound: If the user has no such token that is not revoked.
        """
        at = to_text(now())
        also_revoked: list[str] = []
        with self.database.write() as conn:
            if not store.revoke_token(conn, name, token_id, at):
                raise TokenNotFound(f"{name} has no valid token {token_id}.", hint="The list of tokens has their ids.")
            made = _revocable_made(conn, name, [token_id], at).get(token_id, [])
            while with_made and made:  # again, as one of them may have made another just before
                for token in made:
                    store.revoke_token(conn, token.user_name, token.token_id, at)
                    detail = {"token_id": token.token_id, "made_by": token.made_by}
                    note(conn, by, "token.revoked", f"user:{token.user_name}", detail)
                    also_revoked.append(token.token_id)
                made = _revocable_made(conn, name, [token_id], at).get(token_id, [])
            note(conn, by, "token.revoked", f"user:{name}", {"token_id": token_id})
        return Revocation(token_id, tuple(also_revoked), tuple(token.token_id for token in made))

    def check(self, text: str) -> tuple[User, Token]:
        """Whose token this is. Raises TokenRefused, whatever the cause."""
        parts = parts_of(text)
        if parts is None:
            raise TokenRefused
        token_id, secret = parts
        moment = now()
        with self.database.read() as conn:
            found = store.find_token(conn, token_id)
        if found is None:
            self.keeper.hash(secret)  # takes as long as for one that exists
            raise TokenRefused
        token, user, known_hash = found
        if not self.keeper.agrees(secret, known_hash) or not token.holds(moment) or not user.is_enabled:
            raise TokenRefused
        self._note_use(token, moment)
        return user, token

    def sign_in(self, text: str) -> str:
        """Begins a session by a token: its id, for the cookie. Raises TokenRefused."""
        user, token = self.check(text)
        session, moment = new_session(), now()
        ends = to_text(moment + timedelta(seconds=self.session_s))
        with self.database.write() as conn:
            store.delete_sessions_before(conn, to_text(moment))
            store.add_session(
                conn,
                self.keeper.hash(session),
                token.token_id,
                created_at=to_text(moment),
                expires_at=min(ends, token.expires_at or ends),
            )
            note(conn, user.name, "session.begun", f"user:{user.name}", {"token_id": token.token_id})
        return session

    def session(self, session: str) -> tuple[User, Token]:
        """Whose session this is. Raises TokenRefused when it has ended, or its token or user no longer holds."""
        moment = now()
        with self.database.read() as conn:
            found = store.find_session(conn, self.keeper.hash(session))
        if found is None:
            raise TokenRefused
        token, user, expires_at = found
        if expires_at <= to_text(moment) or not token.holds(moment) or not user.is_enabled:
            raise TokenRefused
        self._note_use(token, moment)
        return user, token

    def sign_out(self, session: str) -> None:
        with self.database.write() as conn:
            store.delete_session(conn, self.keeper.hash(session))

    def _note_use(self, token: Token, moment: datetime) -> None:
        """Not at every use: a write per request would be its dearest part. Nobody is kept out because it fails."""
        last = from_text(token.last_used_at) if token.last_used_at else None
        if last is not None and (moment - last).total_seconds() <= LAST_USE_EVERY_S:
            return
        try:
            with self.database.write() as conn:
                store.token_used(conn, token.token_id, to_text(moment))
        except DatabaseUnavailable:
            return


def _revocable_made(conn: Connection, name: str, token_ids: Collection[str], at: str) -> dict[str, list[Token]]:
    """As store.valid_made_by; but for administrators only what is the user's own."""
    owner = store.get_user(conn, name)
    made = store.valid_made_by(conn, token_ids, at)
    if owner is not None and owner.role is Role.ADMIN:
        return made
    own = {maker: [token for token in tokens if token.user_name == name] for maker, tokens in made.items()}
    return {maker: tokens for maker, tokens in own.items() if tokens}


def words(scopes: Iterable[Scope]) -> str:
    return " ".join(sorted(scopes))
