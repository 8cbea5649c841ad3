"""The operations on accounts: create and disable users, issue and revoke tokens, sign in and out, identify tokens.

Every change is audited in the same transaction. Other capabilities (a data home, an SFTP account) are notified of
changes through `on_change`, in the same transaction; they report a user's running work through `works`.

An administrator manages accounts, not what users made: jobs and files belong to their owner only.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.accounts.credentials import SecretHasher
from app.accounts.service.audit_log import AuditLog
from app.accounts.service.tokens import KeyCheck, Tokens
from app.accounts.service.users import ActiveWork, OnChange, Users
from app.kit.sql import Database

SESSION_S = 14 * 86400


class Accounts:
    """Users, their tokens and sessions, and the audit log.

    Args:
        hasher: hashes tokens.
        on_change: listeners for each change of a user, in its transaction.
        works: the kinds of users' running work, which ends with the user.
        session_s: how long a session on the pages lasts, in seconds.
    """

    def __init__(
        self,
        database: Database,
        hasher: SecretHasher,
        *,
        on_change: Sequence[OnChange] = (),
        works: Sequence[ActiveWork] = (),
        session_s: int = SESSION_S,
    ) -> None:
        self.database = database
        self.audit_log = AuditLog(database)
        self.users = Users(database, on_change, works)
        self.key = KeyCheck(database, hasher)
        self.tokens = Tokens(database, hasher, session_s=session_s)
