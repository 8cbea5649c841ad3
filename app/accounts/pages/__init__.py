"""The HTML pages of accounts: endpoints parse, call one use case, render. ROUTES is their table."""

from __future__ import annotations

from app.accounts.pages import account, login, users

ROUTES = [*login.ROUTES, *account.ROUTES, *users.ROUTES]
