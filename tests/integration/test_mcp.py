"""`modelmill mcp`, spoken to by the package's own client: over standard input and output, and in this process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.exchange.mcp_server import server
from tests.harness.api import pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.users import Person

mcp = pytest.importorskip("mcp")
stdio_client = pytest.importorskip("mcp.client.stdio").stdio_client
PATIENCE_S = 120
Ask = Callable[..., Awaitable[dict[str, Any]]]
Talk = Callable[[Any, Ask], Awaitable[None]]


def with_command(url: str, token: str, talk: Talk) -> None:
    """A process for two seconds of the processor."""
    env = {**os.environ, "MODELMILL_URL": url, "MODELMILL_TOKEN": token}
    command = mcp.StdioServerParameters(command=sys.executable, args=["-m", "app.cli.main", "mcp"], env=env)
    with_agent(stdio_client(command, errlog=sys.stderr), talk)


def with_agent(of: Any, talk: Talk) -> None:
    """of: the server, or the way to it. talk gets the client, and a way to call a tool and read its answer."""

    async def run() -> None:
        async with mcp.Client(of) as client:

            async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
                answer = await client.call_tool(tool, arguments)
                content: dict[str, Any] = json.loads(answer.content[0].text)
                assert answer.is_error == (set(content) == {"error"}), content
                assert answer.structured_content == content
                return content

            await talk(client, ask)

    asyncio.run(run())


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "images").mkdir()
    for name, data in pngs(4):
        (tmp_path / "images" / name).write_bytes(data)
    (tmp_path / "model.onnx").write_bytes(small_model())
    return str(tmp_path / "model.onnx"), str(tmp_path / "images")


async def ended(ask: Ask, job_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while (state := await ask("status", job_id=job_id))["status"] not in ("COMPLETED", "FAILED"):
        assert time.monotonic() < deadline, state
        await asyncio.sleep(0.2)
    return state


def test_an_agent_submits_looks_fixes_and_compares(service: Deployment, files: tuple[str, str]) -> None:
    async def talk(client: Any, ask: Ask) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            "submit",
            "status",
            "explain_failure",
            "compare",
            "apply_fix",
            "list_jobs",
            "list_models",
        }
        assert "hf://" in tools["submit"].description
        assert tools["list_jobs"].input_schema["properties"]["limit"]["minimum"] == 1
        first = await ask("submit", model=files[0], images=files[1], name="by an agent")
        state = await ended(ask, first["job_id"])
        assert state["status"] == "COMPLETED" and "out.nef" in state["artifacts"]
        assert "has not failed" in (await ask("explain_failure", job_id=first["job_id"]))["explanation"]
        fixed = await ask("apply_fix", job_id=first["job_id"], options={"preprocess": {"color": "BGR"}})
        assert fixed["job_id"] != first["job_id"]
        await ended(ask, fixed["job_id"])
        compared = await ask("compare", job_id=first["job_id"], other_job_id=fixed["job_id"])
        assert compared["options"] == {"preprocess.color": ["auto", "BGR"]}
        listed = await ask("list_jobs", search="by an agent")
        assert {job["job_id"] for job in listed["jobs"]} >= {first["job_id"], fixed["job_id"]}
        assert "models" in await ask("list_models")

    with_command(service.url, "", talk)


def test_what_is_wrong_is_answered_with_code_and_hint(service: Deployment, files: tuple[str, str]) -> None:
    async def talk(_: Any, ask: Ask) -> None:
        wrong = await ask("submit", model=files[0], images=[files[1]], options={"toolchain": "abacus"})
        assert wrong["error"]["code"] == "VALIDATION_FAILED" or wrong["error"]["hint"]
        missing = await ask("status", job_id="00000000-0000-4000-8000-000000000000")
        assert missing["error"]["code"] == "JOB_NOT_FOUND"

    with_agent(server(service.url, ""), talk)


def test_an_agent_may_do_what_its_user_may_and_sees_nobody_elses_jobs(
    shared: Deployment, alice: Person, mallory: Person, files: tuple[str, str]
) -> None:
    made: list[str] = []

    async def submit(_: Any, ask: Ask) -> None:
        made.append((await ask("submit", model=files[0], images=[files[1]]))["job_id"])

    async def spy(_: Any, ask: Ask) -> None:
        assert (await ask("status", job_id=made[0]))["error"]["code"] == "JOB_NOT_FOUND"
        assert (await ask("apply_fix", job_id=made[0], options={}))["error"]["code"] == "JOB_NOT_FOUND"

    async def nobody(_: Any, ask: Ask) -> None:
        assert (await ask("list_jobs"))["error"]["code"] == "TOKEN_REFUSED"

    with_command(shared.url, alice.token, submit)
    with_agent(server(shared.url, mallory.token), spy)
    with_agent(server(shared.url, "mm_of_nobody"), nobody)
