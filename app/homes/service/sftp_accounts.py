"""Operations of users and administrators on an SFTP account: show its address, set a password, add keys."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from app.accounts.service.audit_log import note
from app.accounts.service.users import SYSTEM
from app.homes import token_bindings
from app.homes.service.outbox import Outbox, SftpState
from app.homes.sftp.backend import SftpAccountMissing, SftpBackend, SftpEndpoint, SftpOff, SftpUnavailable
from app.homes.sftp.credentials import check_keys, check_password, new_one_time_password
from app.homes.token_bindings import PASSWORD, credential_of
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SftpFacts:
    """The data of a user's SFTP account on the page Data."""

    endpoint: SftpEndpoint
    state: SftpState
    """The user's changes that the backend has not received yet."""
    keys: list[str] | None
    """None while the backend is unreachable."""
    needs_new_password: bool | None
    """None while the backend is unreachable."""
    key_tokens: dict[str, str]
    """Key → id of the token with which it ends; an absent one stays until it is removed."""
    password_token: str | None
    """Id of the token with which the password ends; None: it holds until it is replaced."""


class SftpAccounts:
    """What may be done with SFTP accounts. All but facts raise SftpOff, SftpUnavailable, SftpAccountMissing.

    by: who does it, for the audit. token_id: of the token that asks, or that started the session that asks. What users
    set for themselves ends with it; set again by another token it ends with that one. What an administrator hands to
    somebody else stands by itself.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox

    @property
    def is_on(self) -> bool:
        """Whether this installation has SFTP."""
        return self.outbox.backend is not None

    def facts(self, user: str) -> SftpFacts:
        """Also while SFTPGo is unreachable.

        Raises:
            SftpOff: There is no SFTP.
        """
        backend = self._require_backend()
        keys = needs_new_password = None
        with suppress(SftpUnavailable, SftpAccountMissing):
            keys, needs_new_password = backend.keys(user), backend.needs_new_password(user)
        with self.outbox.database.read() as conn:
            tokens, ended = token_bindings.bindings_of(conn, user), token_bindings.ended_of(conn, user, to_text(now()))
        valid_keys = None if keys is None else [key for key in keys if credential_of(key) not in ended]
        key_tokens = {key: tokens[credential_of(key)] for key in valid_keys or () if credential_of(key) in tokens}
        password_token = tokens.get(PASSWORD)
        if PASSWORD in ended:
            needs_new_password, password_token = True, None
        return SftpFacts(
            backend.info(user), self.outbox.state(user), valid_keys, needs_new_password, key_tokens, password_token
        )

    def reset_password(self, user: str, *, by: str, token_id: str = "") -> str:
        """Sets a one-time password, which is shown only once."""
        password = new_one_time_password()
        with self._open_backend(user) as backend, self._bind(user, [PASSWORD], by, token_id):
            backend.set_password(user, password, is_one_time=True)
        self._note(by, "door.password_reset", user)
        return password

    def set_password(self, user: str, password: str, *, by: str, token_id: str = "") -> None:
        """Sets the password of an account.

        Args:
            by: the acting user, for the audit log.
            token_id: the token of the request: what users set for themselves ends with it; empty: none.

        Raises:
            BadSftpPassword: It is too weak.
        """
        check_password(password)
        with self._open_backend(user) as backend, self._bind(user, [PASSWORD], by, token_id):
            backend.set_password(user, password)
        self._note(by, "door.password_set", user)

    def set_keys(self, user: str, keys: Sequence[str], *, by: str, token_id: str = "") -> list[str]:
        """Replaces all keys of an account.

        Args:
            by: the acting user, for the audit log.
            token_id: the token of the request: what users set for themselves ends with it; empty: none.

        Returns:
            The stored keys.

        Raises:
            BadPublicKey: One of them is invalid.
        """
        checked = check_keys(keys)
        with self._open_backend(user) as backend:
            self._replace_keys(backend, user, checked, checked, by, token_id)
        return checked

    def add_keys(self, user: str, keys: Sequence[str], *, by: str, token_id: str) -> None:
        """Adds keys to the existing ones. An existing one that is given again ends with this token. Arguments as of
        `set_keys`.

        Raises:
            BadPublicKey: One of them is invalid.
        """
        fresh = check_keys(keys)
        replaced = set(map(credential_of, fresh))
        with self._open_backend(user) as backend:
            others = [key for key in backend.keys(user) if credential_of(key) not in replaced]
            self._replace_keys(backend, user, check_keys([*others, *fresh]), fresh, by, token_id)

    def remove_key(self, user: str, key: str, *, by: str) -> None:
        """Does nothing if it is not there."""
        with self._open_backend(user) as backend:
            self._replace_keys(backend, user, [other for other in backend.keys(user) if other != key], [], by)

    def end_bound(self, moment: datetime) -> None:
        """Removes what was set with tokens that have ended. For the pulse; the built-in server does not need it."""
        if not self.is_on:
            return
        with self.outbox.database.read() as conn:
            users = token_bindings.users_ended(conn, to_text(moment))
        for user in users:
            try:
                with self._open_backend(user) as backend:
                    self._end_bound(backend, user, to_text(moment))
            except SftpUnavailable as error:
                logger.warning("SFTP still has what a token of %s set: %s", user, error.message)
                return  # nor can the others be sent
            except ModelmillError as error:
                logger.warning("SFTP still has what a token of %s set: %s", user, error.message)

    def _end_bound(self, backend: SftpBackend, user: str, at: str) -> None:
        with self.outbox.database.read() as conn:
            ended = token_bindings.ended_of(conn, user, at)
            remaining = token_bindings.bindings_of(conn, user).keys() - ended
        with suppress(SftpAccountMissing):
            keys = backend.keys(user)
            valid_keys = [key for key in keys if credential_of(key) not in ended]
            if valid_keys != keys:
                backend.set_keys(user, valid_keys)
            if PASSWORD in ended:
                backend.set_password(user, new_one_time_password(), is_one_time=True)  # nobody knows it
        with self.outbox.database.write() as conn:
            token_bindings.forget_others(conn, user, remaining)
            note(conn, SYSTEM, "door.credentials_ended", f"user:{user}", {"count": len(ended)})

    def _replace_keys(
        self, backend: SftpBackend, user: str, keys: list[str], fresh: list[str], by: str, token_id: str = ""
    ) -> None:
        """fresh: the keys that this token sets."""
        with self._bind(user, list(map(credential_of, fresh)), by, token_id):
            backend.set_keys(user, keys)
        with self.outbox.database.write() as conn:
            token_bindings.forget_others(conn, user, [PASSWORD, *map(credential_of, keys)])
            note(conn, by, "door.keys_set", f"user:{user}", {"count": len(keys)})

    @contextmanager
    def _bind(self, user: str, credentials: Sequence[str], by: str, token_id: str) -> Iterator[None]:
        """Binds new credentials to the token before the backend receives them, so that it never has unbound ones."""
        token = token_id if by == user else None
        with self.outbox.database.write() as conn:
            before = token_bindings.bindings_of(conn, user)
            token_bindings.bind(conn, user, dict.fromkeys(credentials, token))
        try:
            yield
        except BaseException:
            with self.outbox.database.write() as conn:
                token_bindings.bind(conn, user, {credential: before.get(credential) for credential in credentials})
            raise

    def _require_backend(self) -> SftpBackend:
        if self.outbox.backend is None:
            raise SftpOff("This installation has no SFTP.", hint="Upload and download files on the page Data.")
        return self.outbox.backend

    @contextmanager
    def _open_backend(self, user: str) -> Iterator[SftpBackend]:
        """After it has received all changes of the user, and while nobody else changes the account."""
        backend = self._require_backend()
        self.outbox.apply(user)
        with self.outbox.lease(user):
            yield backend

    def _note(self, by: str, action: str, user: str) -> None:
        with self.outbox.database.write() as conn:
            note(conn, by, action, f"user:{user}")
