"""The agent as its command starts it, with a driver of the tests: an order's content is the text of a Python program.

Run as `python -m tests.harness.agent.program --name … `, with the arguments of `modelmill node`. It is less patient
than that; how long the product waits is proved where that is reckoned.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

import typer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.bootstrap import edge
from app.cli import node
from app.edge.agent import backoff, process, supervisor, worker
from app.edge.agent.driver import Agent, Allocation, Blob, ProcessSpec, WorkRefused
from app.kit.backoff import GrowingPause
from app.kit.cli.command import complain, exit_code
from app.kit.errors import ModelmillError
from app.nodes.model import Order

KIND = "programs"


class ProgramDriver:
    """content: {"program": text, "files": [[sha256, bytes]], "is_served": bool, "listens": bool, "restarts": bool}"""

    kind = KIND

    def blobs(self, order: Order) -> list[Blob]:
        return [Blob(sha256, size) for sha256, size in order.content.get("files", [])]

    def worker_name(self, order: Order) -> str:
        return f"{order.name}-{order.key.part}-worker"

    def prepare(self, order: Order, place: Allocation) -> ProcessSpec:
        content: Mapping[str, Any] = order.content
        if "bug" in content:
            raise RuntimeError(content["bug"])
        if "refused" in content:
            raise WorkRefused(content["refused"], reason="NotHere", hint="Elsewhere.")
        file = place.folder / "program.py"
        file.write_text(content["program"])
        return ProcessSpec(
            content.get("command") or [sys.executable, "-u", str(file)],
            {"PORT": str(place.port), "AGENT": place.agent_url, "FILES": " ".join(map(str, place.blobs.values()))},
            health_url=f"http://{place.host}:{place.port}/" if content.get("is_served") else "",
            listens=content.get("listens", False),
            restarts=content.get("restarts", True),
        )

    def sources(self, order: Order) -> Collection[str]:
        return order.content.get("sources", ())

    def offers(self, agent: Agent) -> Mapping[str, Any]:
        return {}

    def routes(self, agent: Agent) -> list[BaseRoute]:
        async def say(request: Request) -> Response:
            order = agent.owner_of(KIND, request.path_params["worker"])
            if order is None:
                return JSONResponse({}, status_code=404)
            agent.note_status(order.key, is_running=True, detail=await request.json())
            return JSONResponse({"name": order.name})

        async def send(request: Request) -> Response:
            query = request.query_params
            agent.send(query["path"], await request.body(), "text/plain", replaces=query.get("replaces", ""))
            return JSONResponse({})

        return [Route("/workers/{worker}", say, methods=["POST"]), Route("/send", send, methods=["POST"])]


def hurry() -> None:
    """Whatever it waits for is the same, and the time shorter."""
    worker.LIVED_S = 0.4
    backoff.PAUSE, backoff.LINK_PAUSE = GrowingPause(0.3, 60.0), GrowingPause(0.3, 30.0)
    process.TERM_S = 1.0
    supervisor.TIDY_S = 0.1


def main() -> int:
    hurry()
    edge.drivers = lambda *_: (ProgramDriver(),)
    return run_node()


def run_node() -> int:
    """`modelmill node` with this process's arguments. Returns its exit code."""
    command = typer.Typer(pretty_exceptions_enable=False)
    command.command()(node.node)
    try:
        command(standalone_mode=False)
    except ModelmillError as error:
        complain(error)
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
