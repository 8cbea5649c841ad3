"""Request dependencies shared by all endpoints of accounts, JSON and pages."""

from __future__ import annotations

from starlette.requests import Request

from app.accounts.authenticator import AccountAuthenticator
from app.accounts.model import Token
from app.accounts.service import Accounts
from app.kit.web.auth import caller_of
from app.kit.web.state import FromContainer

authenticator_of = FromContainer[AccountAuthenticator]("authenticator")
accounts_of = FromContainer[Accounts]("accounts")


def token_of(request: Request) -> Token | None:
    """By which the request was let in; None for the local user of this machine."""
    caller = caller_of(request)
    tokens = accounts_of(request).tokens.of(caller.user) if caller.token_id else []
    return next((token for token in tokens if token.token_id == caller.token_id), None)
