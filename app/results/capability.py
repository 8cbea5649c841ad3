"""The declaration of the capability results."""

from __future__ import annotations

from app.kit.capability import Capability

RESULTS = Capability("results", actors=("actors.results",), tables=("app.results.store.tables",))
