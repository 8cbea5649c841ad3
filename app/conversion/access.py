"""Request dependencies shared by all endpoints of conversion, JSON and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.conversion.service import Conversion
from app.conversion.service.batches import Batches
from app.kit.web.state import FromContainer

if TYPE_CHECKING:
    from app.conversion.service.archive import Archive

conversion_of = FromContainer[Conversion]("conversion")
archive_of: FromContainer[Archive] = FromContainer("archive")
batches_of: FromContainer[Batches] = FromContainer("sweeps")
"""What carries out several conversions that belong together."""
