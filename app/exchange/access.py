"""Request dependencies shared by all endpoints of exchange."""

from __future__ import annotations

from app.exchange.pack.service import Packs
from app.exchange.service import Exchange
from app.kit.web.state import FromContainer

exchange_of = FromContainer[Exchange]("exchange")
packs_of = FromContainer[Packs]("packs")
