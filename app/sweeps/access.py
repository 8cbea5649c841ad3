"""Request dependencies shared by all endpoints of sweeps."""

from __future__ import annotations

from app.kit.web.state import FromContainer
from app.sweeps.service import Sweeps

sweeps_of = FromContainer[Sweeps]("sweeps")
