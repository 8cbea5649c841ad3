"""Services as tables and lines. Pure: JSON in, renderables out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from app.joint_inference.model.sources import source_broadcasts, source_states
from app.joint_inference.model.status import Reason, current_of
from app.joint_inference.model.tally import upload_share_key
from app.kit.cli.tables import table_of
from app.kit.clock import age
from app.kit.text.labels import text_of

Json = Mapping[str, Any]
COLORS = {"Running": "green", "Failed": "red", "Pending": "yellow"}
TERMINATING = "Terminating"
TROUBLED = ("FAILED", "BACKOFF")


def services_table(records: Iterable[Json], now: datetime) -> Table:
    """The columns of kubectl, and what was counted."""
    table = table_of("service", "status", "active", "failed", "inferences", "uploaded", "age", "")
    for record in records:
        state, counted = TERMINATING if record["is_deleting"] else record["state"], record["metrics"]
        table.add_row(
            escape(f"{record['namespace']}/{record['name']}"),
            Text(state, style=_choose_color(state, record["reason"])),
            str(record["active"]),
            str(record["failed"]),
            counted.get("inferenceNumber", "–"),
            _format_share(counted.get(upload_share_key(counted))),
            age(record["created_at"], now),
            escape(_format_since(record, now)),
        )
    return table


def service_lines(record: Json) -> Iterator[str]:
    """All that is known of one: its state, its workers and what they counted."""
    resource = record["resource"]
    status, spec = resource.get("status") or {}, resource["spec"]
    yield f"service    {full_name(resource)}"
    yield f"state      {state_of(resource)}  {_explain(current_of(status) or {})}".rstrip()
    yield f"created    {resource['metadata']['creationTimestamp']}"
    if status.get("startTime"):
        yield f"started    {status['startTime']}"
    for side in ("edge", "cloud"):
        worker = spec[f"{side}Worker"]
        selector = worker.get("nodeSelector")
        place = f"all nodes with {text_of(selector)}" if selector else f"node {worker['nodeName']}"
        yield f"{side:<10} {worker['name']}: model {worker['model']['name']} on {place}"
    yield f"algorithm  {spec['edgeWorker']['hardExampleAlgorithm']['name']}"
    yield f"workers    {status.get('active', 0)} active, {status.get('failed', 0)} failed"
    yield from rollout_lines(record["rollout"]) if record["rollout"] else ()
    for worker in record["workers"]:
        yield from _format_worker(worker)
    for condition in status.get("conditions") or ():
        since = condition.get("lastTransitionTime", "–")
        yield f"condition  {condition['type']}={condition['status']} since {since}  {_explain(condition)}".rstrip()
    for metric in status.get("metrics") or ():
        if metric["value"]:
            yield f"count      {metric['key']} {metric['value']}"


def _format_worker(worker: Json) -> Iterator[str]:
    facts = [str(worker["state"] or "not reported"), f"on {worker['node']}"]
    facts += [] if worker["is_online"] else ["which is not connected"]
    facts += [f"pid {worker['pid']}"] if worker.get("pid") else []
    facts += [f"restarts {worker['restarts']}"] if worker.get("restarts") else []
    facts += [f"exit code {worker['exit_code']}"] if worker.get("exit_code") is not None else []
    runs = worker.get("runs")
    facts += [f"model {runs['model']} version {runs['version']} {runs['sha256'][:12]}"] if runs else []
    counted = worker["reported"].get("inferenceNumber")
    facts += [f"{counted} pictures"] if counted is not None else []
    facts += [worker.get("reason") or "", worker.get("message") or ""]
    yield f"worker     {worker['role']} {worker['name']}  {'  '.join(filter(None, facts))}"
    for source in source_states(worker.get("detail") or {}):
        last = f"last picture {source.last_frame_at}" if source.last_frame_at else ""
        facts = [source.name, source.status.value, f"since {source.since}", f"{source.frames} pictures", last]
        yield f"source     {'  '.join(filter(None, (*facts, source.message)))}"
    for broadcast in source_broadcasts(worker.get("detail") or {}):
        state = "sending" if broadcast.is_sending else "not sending"
        facts = [broadcast.source, broadcast.url, state, f"{broadcast.frames} frames", broadcast.problem]
        yield f"broadcast  {'  '.join(filter(None, facts))}"
    if worker["state"] in TROUBLED:
        yield from (f"           {line}" for line in worker.get("log") or ())


def rollout_lines(rollout: Json) -> Iterator[str]:
    """How far a new model has got."""
    versions = [f"{rollout[key]['model']}@{rollout[key]['version']}" for key in ("former", "target")]
    if rollout["state"] == "complete":
        yield f"rollout    complete  {versions[1]} on all nodes"
        return
    change = f"{versions[0]} -> {versions[1]}  wave {rollout['wave']}"
    yield f"rollout    {rollout['state']}  {change}  {rollout['reason']}".rstrip()
    if rollout["nodes"]:
        yield f"           on {', '.join(rollout['nodes'])}"


def full_name(resource: Json) -> str:
    return f"{resource['metadata']['namespace']}/{resource['metadata']['name']}"


def state_of(resource: Json) -> str:
    if resource["metadata"].get("deletionTimestamp"):
        return TERMINATING
    current = current_of(resource.get("status") or {})
    return str(current["type"]) if current else "Pending"


def _choose_color(state: str, reason: str) -> str:
    is_well = state != "Running" or reason == Reason.SERVING
    return COLORS.get(state, "") if is_well else "yellow"


def _format_since(record: Json, now: datetime) -> str:
    """`SourceUnavailable (5 min)  cam cannot be opened`; of a message with several lines, the first and the last."""
    lines = record["message"].splitlines()
    message = "  ".join(lines if len(lines) < 3 else (lines[0], "…", lines[-1]))
    return _explain({"reason": f"{record['reason']} ({age(record['since'], now)})", "message": message})


def _explain(condition: Json) -> str:
    return "  ".join(filter(None, (condition.get("reason"), condition.get("message"))))


def _format_share(text: str | None) -> str:
    return f"{float(text):.0%}" if text else "–"
