"""Request dependencies shared by all endpoints of results."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from app.kit.web.state import FromContainer
from app.results.model.producer import Producer
from app.results.service import ResultServices

results_of = FromContainer[ResultServices]("results")
ProducerOf = Callable[[Request], Producer]
"""Returns the producer in the path; NotFound is raised if the user may not see it."""
