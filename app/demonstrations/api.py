"""The JSON API of demonstrations: their states. They are started by the command line, or by a button."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.demonstrations.access import demonstrations_of
from app.demonstrations.service import DemoName, DemoState
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations


class DemonstrationAnswer(BaseModel):
    name: DemoName
    state: DemoState
    lines: tuple[str, ...]
    """The last lines of its output."""
    is_offered: bool
    """Whether it can be started here."""


class DemonstrationsAnswer(BaseModel):
    is_offered: bool
    """Not if accounts are required."""
    demonstrations: list[DemonstrationAnswer]


OPERATIONS = Operations()


@OPERATIONS.get("/api/v2/demonstrations", "List the demonstrations with their state", DemonstrationsAnswer, errors=())
def list_demonstrations(request: Request) -> Response:
    service = demonstrations_of(request)
    answers = [
        DemonstrationAnswer(name=view.name, state=view.state, lines=view.lines, is_offered=view.is_offered)
        for view in service.views()
    ]
    return json_answer(DemonstrationsAnswer(is_offered=service.is_offered, demonstrations=answers))
