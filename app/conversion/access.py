"""What every endpoint of conversion, JSON or page, needs of a request."""

from __future__ import annotations

from app.conversion.service import Conversion
from app.kit.web.state import FromContainer

conversion_of = FromContainer[Conversion]("conversion")
