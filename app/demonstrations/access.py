"""Request dependencies shared by all pages of demonstrations."""

from __future__ import annotations

from app.demonstrations.service import Demonstrations
from app.kit.web.state import FromContainer

demonstrations_of = FromContainer[Demonstrations]("demonstrations")
