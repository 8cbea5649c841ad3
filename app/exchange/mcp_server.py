"""The Model Context Protocol over standard input and output: conversions as tools of an agent.

Every tool is calls of the JSON API, as the user whose token is given: an agent may do what that user may, and no more.
What is wrong is answered with its code, message and hint, so that an agent knows what to do next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ParamSpec, Self

from modelmill_client.comparison import compare_records
from pydantic import Field

from app.conversion.client import ConversionClient
from app.conversion.options import goal_or_knobs
from app.kit.cli.api_client import ApiError
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.text.merge_patch import merge_patch
from app.model_registry.client import ModelsClient

INSTRUCTIONS = (
    "Convert ONNX models for edge NPUs: ONNX → BIE (quantized) → NEF. submit returns a job id; ask status until it is "
    "COMPLETED or FAILED. When it FAILED, explain_failure says why and what to try; apply_fix submits the same inputs "
    "with changed options. compare shows what a change was worth."
)
LOG_BYTES = 8192
SHOWN = ("job_id", "name", "status", "stage", "progress", "verdict", "created_at", "finished_at", "queue_position")
P = ParamSpec("P")
Answer = JsonObject
Limit = Annotated[int, Field(ge=1)]


def serve(url: str, token: str) -> None:
    """Serve until the client closes standard input.

    Raises:
        ExtraMissing: The package mcp is not installed.
    """
    server(url, token).run("stdio")


def server(url: str, token: str) -> Any:
    """Returns the server with its tools.

    Raises:
        ExtraMissing: The package mcp is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        from app.kit.errors import ExtraMissing

        raise ExtraMissing("The package mcp is not installed here.", hint="pip install 'modelmill[mcp]'") from error
    made = MCPServer("modelmill", instructions=INSTRUCTIONS, version=version("modelmill"), log_level="WARNING")
    for tool in ConversionTools(url, token).all():
        made.tool(description=tool.__doc__)(tool)
    return made


def with_error_results(tool: Callable[P, Answer]) -> Callable[P, Any]:
    """Wraps a tool so that errors become results with isError: the protocol's own errors have no place for a hint."""
    from mcp.types import CallToolResult, TextContent

    @wraps(tool)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return tool(*args, **kwargs)
        except ModelmillError as error:
            answer: Answer = {"error": error.to_dict()}
            text = TextContent(type="text", text=json.dumps(answer, ensure_ascii=False))
            return CallToolResult(content=[text], structured_content=answer, is_error=True)

    return call


class ConversionTools:
    """The tools.

    Args:
        url: of the service.
        token: of the user.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    def all(self) -> Iterator[Callable[..., Answer]]:
        """Yields the tools."""
        tools = (
            self.submit,
            self.status,
            self.explain_failure,
            self.compare,
            self.apply_fix,
            self.list_jobs,
            self.list_models,
        )
        for tool in tools:
            yield with_error_results(tool)

    def submit(self, model: str, images: str | list[str], options: Answer | None = None, name: str = "") -> Answer:
        """Submit a conversion. model: a file on this machine, or an address that the service downloads: hf://,
        mlflow://, models:/, s3://, https://. images: a file, a folder or a ZIP file of reference samples on this
        machine, or a list of these. options: those of POST /jobs, for example {"toolchain": "host", "preprocess":
        {"color": "BGR"}}."""
        from app.conversion.cli.conversion import ConversionOrder, submit

        paths = [Path(image) for image in ([images] if isinstance(images, str) else images)]
        order = ConversionOrder(model, paths, options or {}, name=name)
        with self._open_conversion() as client:
            return _show(submit(client, order, _Quiet()))

    def status(self, job_id: str) -> Answer:
        """Get the state and progress of a job and, once it is quantized, its measured quality."""
        with self._open_conversion() as client:
            record = client.stored(job_id)
        summary = record["stages"]["bie"]["summary"]
        return {
            **_show(record),
            "quality": summary,
            "error": record["error"],
            "artifacts": sorted(record["artifacts"]),
        }

    def explain_failure(self, job_id: str) -> Answer:
        """Explain why a job FAILED: code, reason, hint, facts, the end of the log of the stage, and the next actions
        that the service recommends."""
        with self._open_conversion() as client:
            record = client.stored(job_id)
            error = record["error"]
            if error is None:
                return {**_show(record), "explanation": "This job has not failed."}
            step = error["step"] or record["stage"].lower()
            log = client.log(job_id, step).text[-LOG_BYTES:].decode(errors="replace")
            actions = _list_actions(client, job_id)
        return {**_show(record), **error, "log_tail": log, "options": record["options"], "actions": actions}

    def compare(self, job_id: str, other_job_id: str) -> Answer:
        """Compare two jobs: the options that differ, and the metrics of both."""
        with self._open_conversion() as client:
            records = [client.stored(each) for each in (job_id, other_job_id)]
        return {"jobs": [_show(record) for record in records], **vars(compare_records(records))}

    def apply_fix(self, job_id: str, options: Answer, name: str = "") -> Answer:
        """Submit the inputs of a job again with its options changed by a JSON merge patch: an
        action's options_patch, or for example {"quantization": {"per_channel": true}}. Returns the new job."""
        with self._open_conversion() as client:
            record = client.stored(job_id)
            keys = [f"jobs/{record['job_id']}/input/{file}" for file in ("model.onnx", "quant.zip")]
            patch = {**options, "quantization": goal_or_knobs(options.get("quantization") or {})}
            changed, tags = merge_patch(record["options"], patch), tuple(record["tags"])
            return _show(client.submit(*keys, options=changed, name=name or record["name"], tags=tags))

    def list_jobs(self, search: str = "", status: str = "", limit: Limit = 20) -> Answer:
        """List jobs, newest first. status: ONNX, BIE, NEF, COMPLETED or FAILED."""
        with self._open_conversion() as client:
            return {"jobs": [_show(record) for record in client.jobs(limit=limit, q=search, status=status or None)]}

    def list_models(self, search: str = "", limit: Limit = 20) -> Answer:
        """List the models of the registry, newest first: results of conversions, and uploads of users."""
        with ModelsClient(self._url, token=self._token) as client:
            return {"models": list(client.models(limit=limit, text=search))}

    @contextmanager
    def _open_conversion(self) -> Iterator[ConversionClient]:
        with ConversionClient(self._url, token=self._token) as client:
            yield client


class _Quiet:
    """A progress display that prints nothing, since standard output belongs to the protocol."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def sent(self, done_bytes: int, total_bytes: int) -> None: ...

    def show(self, record: Answer) -> None: ...


def _show(record: Answer) -> Answer:
    return {name: record.get(name) for name in SHOWN}


def _list_actions(client: ConversionClient, job_id: str) -> list[Answer]:
    """Returns the next actions that the service recommends; none if it has no such endpoint."""
    try:
        answer = client.actions(job_id)
    except ApiError:
        return []
    actions: list[Answer] = answer.get("actions", [])
    return actions
