"""Request dependencies shared by all endpoints of links."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.shares.service import Shares

shares_of = FromContainer[Shares]("shares")
