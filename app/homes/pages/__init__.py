"""The HTML pages of homes: endpoints parse, call one use case, render. ROUTES is their table."""

from __future__ import annotations

from app.homes.pages import browser, changes, overview, sftp

ROUTES = [*overview.ROUTES, *sftp.ROUTES, *changes.ROUTES, *browser.ROUTES]
