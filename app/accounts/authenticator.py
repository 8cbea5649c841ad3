"""Authenticates requests: by a token, by a session, or because they come from this machine while nobody else can reach
it.

A request that arrives on an address other than loopback, or through a proxy, always needs a token: whatever the
settings say, the local user exists only on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from starlette.requests import Request

from app.accounts.credentials import parts_of
from app.accounts.errors import TokenRefused
from app.accounts.login_throttle import LoginThrottle
from app.accounts.model import Role, Scope, Token, User
from app.accounts.service import Accounts
from app.kit.network.addresses import is_loopback
from app.kit.network.bearer import bearer_of
from app.kit.sql.errors import DatabaseUnavailable
from app.kit.web.auth import Caller
from app.kit.web.security import session_cookie

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


@dataclass(eq=False)
class AccountAuthenticator:
    """Identifies the caller of a request.

    Args:
        throttle: limits failed log-ins.
        local_user: the user of requests from this machine; None if everybody needs an account.
        node_of: the name of the node whose token this is; None for any other text.
    """

    accounts: Accounts
    throttle: LoginThrottle
    _: KW_ONLY
    local_user: str | None
    node_of: Callable[[str], str | None] = lambda _: None

    def __post_init__(self) -> None:
        self.local = Caller(self.local_user, is_admin=True) if self.local_user else None

    def caller(self, request: Request) -> Caller:
        """As the protocol says: TokenRefused is an Unauthorized, TooManyLogins a TooMany."""
        if "authorization" in request.headers:
            return self._by_token(request)
        session = request.cookies.get(session_cookie(request))
        local = self.local if is_local(request) else None
        if session:
            try:
                return _make_caller(*self.accounts.tokens.session(session))
            except TokenRefused:
                if local is None:
                    raise
        if local is None:
            raise TokenRefused
        return local

    def still_holds(self, request: Request) -> bool:
        text = bearer_of(request.headers)
        try:
            if text:
                self.accounts.tokens.check(text)
            else:
                self.accounts.tokens.session(request.cookies.get(session_cookie(request), ""))
        except TokenRefused:
            return False
        except DatabaseUnavailable:
            return True
        return True

    def sign_in(self, request: Request, text: str) -> str:
        """Starts a session with a token, and returns its id. The previous session ends.

        Raises:
            TokenRefused: It is no valid token.
            TooManyLogins: This address, or this token, has failed too often.
        """
        address = _get_address(request)
        self.throttle.require_room("login", address)
        try:
            session = self.accounts.tokens.sign_in(text)
        except TokenRefused:
            self.throttle.failed("login", address, _id_of(text))
            raise
        self.sign_out(request)
        return session

    def sign_out(self, request: Request) -> None:
        session = request.cookies.get(session_cookie(request))
        if session:
            self.accounts.tokens.sign_out(session)

    def _by_token(self, request: Request) -> Caller:
        """A valid token is accepted, however often others have failed."""
        text = bearer_of(request.headers)
        node = self.node_of(text)
        if node is not None:
            return Caller("", node=node)
        try:
            return _make_caller(*self.accounts.tokens.check(text))
        except TokenRefused:
            self.throttle.failed("token", _get_address(request), _id_of(text))
            raise


def is_local(request: Request) -> bool:
    """Whether it arrived on a loopback address, and not through a proxy."""
    server = request.scope.get("server") or ("", None)
    return is_loopback(server[0]) and not any(name in request.headers for name in FORWARDED)


def _id_of(text: str) -> str | None:
    parts = parts_of(text)
    return parts[0] if parts else None


def _get_address(request: Request) -> str:
    return request.client.host if request.client else ""


def _make_caller(user: User, token: Token) -> Caller:
    is_admin = user.role is Role.ADMIN and Scope.ADMIN in token.scopes
    return Caller(user.name, may_write=Scope.WRITE in token.scopes, is_admin=is_admin, token_id=token.token_id)
