"""What keeping results is to the product."""

from __future__ import annotations

from app.kit.capability import Capability

RESULTS = Capability("results", actors=("actors.results",), tables=("app.results.store.tables",))
