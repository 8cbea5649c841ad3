"""Tasks and the cluster as tables and lines, and learning curves as plots. Pure: JSON in, renderables out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.markup import escape
from rich.table import Table
from rich.text import Text
from uniplot import plot_to_string

from app.kit.cli.tables import table_of
from app.kit.clock import age
from app.kit.text.json_values import JsonObject
from app.training.model.node_use import GIB

LIMITS = ("priority", "max_gpus_per_task", "max_gpus", "max_run_s")
COLORS = {"SUCCEEDED": "green", "FAILED": "red", "CANCELED": "yellow", "RUNNING": "cyan"}


def tasks_table(records: Iterable[JsonObject], now: datetime, *, shows_users: bool = False) -> Table:
    table = table_of("task", *(["user"] if shows_users else []), "name", "state", "GPUs", "attempt", "age", "")
    for record in records:
        last = record["latest_attempt"]
        table.add_row(
            record["task_id"],
            *([record["user"]] if shows_users else []),
            escape(record["name"]),
            Text(record["state"], style=COLORS.get(record["state"], "")),
            str(record["demand"]["gpus"]),
            str(last["attempt_no"]) if last else "–",
            age(record["created_at"], now),
            escape(record["waiting_reason"] or record["error_summary"]),
        )
    return table


def checkpoints_table(records: Iterable[JsonObject], metric: str) -> Table:
    """metric: what they are judged by; "": nothing."""
    table = table_of("step", "size", escape(metric) or "value", "", "path")
    for record in records:
        value = "–" if record["value"] is None else f"{record['value']:.4g}"
        best = "best" if record["is_best"] else ""
        table.add_row(str(record["step"]), f"{record['size_bytes'] / 1e6:,.1f} MB", value, best, record["path"])
    return table


def sweeps_table(sweeps: Iterable[JsonObject]) -> Table:
    table = table_of("sweep", "name", "search", "tasks", "metric", "best")
    for sweep in sweeps:
        best = next((task["best"]["value"] for task in sweep["tasks"] if task["is_best"]), None)
        count = f"{len(sweep['tasks'])} of {sweep['size']}"
        shown = "–" if best is None else f"{best:.4g}"
        table.add_row(sweep["sweep_id"], escape(sweep["name"]), sweep["search"], count, escape(sweep["metric"]), shown)
    return table


def sweep_table(view: JsonObject) -> Table:
    fields = view["fields"]
    names = [escape(field.rpartition(".")[2]) for field in fields]
    table = table_of("task", "state", *names, escape(view["metric"]) or "figure", "")
    for record in view["tasks"]:
        values = (
            escape("–" if record["values"].get(field) is None else str(record["values"][field])) for field in fields
        )
        best = f"{record['best']['value']:.4g}" if record["best"] else "–"
        shown = f"{record['state']} early" if record["is_stopped_early"] else record["state"]
        state = Text(shown, style=COLORS.get(record["state"], ""))
        table.add_row(record["task_id"], state, *values, best, "*" if record["is_best"] else "")
    return table


def task_lines(record: JsonObject) -> Iterator[str]:
    yield f"task      {record['task_id']}"
    if record["name"]:
        yield f"name      {record['name']}"
    yield f"workload  {record['workload']}"
    yield f"state     {record['state']}{_format_cause(record)}"
    if record["position"] is not None:
        yield f"position  {record['position']} in line"
    if record["next_run_at"] and record["position"] is not None:
        yield f"next try  {record['next_run_at']}"
    yield f"needs     {_format_demand(record['demand'])}"
    if record["environment"]:
        yield f"runs in   {record['environment']}"
    if record["cluster"]:
        yield f"runs on   {record['cluster']}"
    yield f"created   {record['created_at']}"
    if record["ended_at"]:
        yield f"ended     {record['ended_at']}"
    for attempt in record["attempts"]:
        yield from _format_attempt(attempt)
    yield from _format_folder("folder    ", record.get("checkpoints"))
    for artifact in record["artifacts"]:
        yield f"artifact  {artifact['file']}"
    for conversion in record["conversions"]:
        became = f"job {conversion['job_id']}" if conversion["job_id"] else conversion["problem"] or "being made"
        yield f"convert   {conversion['artifact'] or 'its model'}: {became}"


def environments_table(records: Iterable[JsonObject]) -> Table:
    table = table_of("environment", "image or packages", "variables", "secrets", "limits", "")
    for record in records:
        limits = [f"{name} {record[name]}" for name in LIMITS if record[name] is not None]
        table.add_row(
            record["name"],
            escape(record["image"] or ", ".join(record["pip"])),
            ", ".join(record["variables"]),
            ", ".join(record["secrets"]),
            ", ".join(limits),
            escape(record["description"]),
        )
    return table


def nodes_table(cluster: JsonObject) -> Table:
    table = table_of("node", "address", "GPUs held", "GPUs free", "CPUs free", "busy", "resources", "held by")
    for node in cluster["nodes"]:
        total, free = node["total_gpus"], node["free_gpus"]
        table.add_row(
            node["node_id"][:12],
            escape(node["address"]),
            f"{total - free:g} of {total:g}",
            f"{free:g}",
            f"{node['free_cpus']:g} of {node['total_cpus']:g}",
            _format_busy(node.get("use")),
            escape(", ".join(map(_describe_resource, sorted(node["resources"].items())))),
            escape(", ".join(_format_holders(node["node_id"], cluster["holders"])))
            or ("–" if node["may_train"] else "no training"),
        )
    return table


def _format_busy(use: JsonObject | None) -> str:
    if use is None:
        return ""
    parts = [f"CPU {use['cpu_percent']:.0f} %", f"{use['memory'] / GIB:.1f} of {use['total_memory'] / GIB:.1f} GiB"]
    parts += [f"GPU {use['gpu_percent']:.0f} %"] if use["gpu_percent"] is not None else []
    if use["total_gpu_memory"]:
        parts.append(f"GPU memory {use['gpu_memory'] / GIB:.1f} of {use['total_gpu_memory'] / GIB:.1f} GiB")
    return ", ".join(parts)


def cluster_lines(cluster: JsonObject) -> Iterator[str]:
    if not cluster["is_on"]:
        yield "This installation trains nothing: it has no Ray cluster."
        return
    if cluster["seen_at"] is None:
        yield "No scheduler has looked at the cluster for some time: is `dramatiq actors --queues training` running?"
        return
    if cluster["unreachable_since"]:
        yield f"Ray has not answered since {cluster['unreachable_since']}; this is as it was last seen."
    yield from filter(None, [cluster.get("problem", "")])
    for held in cluster["holders"]:
        which = f" for {held['task_id']} ({held['state']})" if held["task_id"] else ""
        reserved = held["gpus"] - sum(held["by_node"].values())
        yield f"{held['user']}: {_format_size(held)}{which}" + (
            f", {reserved:g} of them reserved" if reserved > 0 else ""
        )
    if first := cluster.get("first"):
        by = ""
        if first["starts_by"]:
            after = first["after_task"] or f"a task of {first['after_user']}"
            by = f", by {first['starts_by']} at the latest, when {after} ends"
        yield f"first in line: {first['user']} with {_format_size(first)}{by}"
    yield f"{cluster['queued']} in line · seen {cluster['seen_at']}"


def _format_attempt(attempt: JsonObject) -> Iterator[str]:
    facts = [attempt["ray_status"], attempt["failure_kind"] or ""]
    facts += [f"exit code {attempt['exit_code']}"] if attempt["exit_code"] is not None else []
    facts += [f"from {attempt['start_time']}"] if attempt["start_time"] else []
    facts += [f"to {attempt['end_time']}"] if attempt["end_time"] else []
    yield f"attempt {attempt['attempt_no']} {attempt['ray_submission_id']}  {'  '.join(filter(None, facts))}".rstrip()
    if attempt["message"]:
        yield from (f"          {line}" for line in attempt["message"].splitlines())
    yield from _format_folder("          ", attempt["folder"])


def _format_folder(head: str, folder: JsonObject | None) -> Iterator[str]:
    if folder and folder["path"]:
        until = f", kept until {folder['purge_at']}" if folder["purge_at"] else ""
        yield f"{head}{folder['path']}{until}"


def _format_cause(record: JsonObject) -> str:
    why = record["waiting_reason"] or record["error_summary"]
    return f"  {why}" if why else ""


def _format_demand(demand: JsonObject) -> str:
    nodes, per_node = demand["nodes"], demand["gpus_per_node"]
    spread = f" ({nodes} nodes with {per_node} each)" if nodes > 1 else ""
    others = "".join(f", {_describe_resource(one)}" for one in sorted(demand["resources"].items()))
    return f"{_count(demand, 'gpus')}{spread}, {demand['cpus']:g} CPUs{others}"


def _describe_resource(one: tuple[str, float]) -> str:
    """A type of GPU by its name, another custom resource with its amount."""
    name, amount = one
    kind = name.removeprefix("accelerator_type:")
    return kind if kind != name else f"{name} {amount:g}"


def _format_size(record: JsonObject) -> str:
    """In GPUs; in CPUs where it needs no GPU."""
    return _count(record, "gpus" if record["gpus"] else "cpus")


def _count(record: JsonObject, unit: str) -> str:
    return f"{record[unit]:g} {unit[:-1].upper()}" + ("" if record[unit] == 1 else "s")


def _format_holders(node_id: str, holders: Iterable[JsonObject]) -> Iterator[str]:
    for held in holders:
        if gpus := held["by_node"].get(node_id):
            yield f"{held['user']} {gpus:g}"


MOST_DRAWN = 6
HEIGHT = 10
MARGIN = 14
"""Columns beside the curve: its frame and the labels of its axis."""


def curve_text(drawn: JsonObject, *, columns: int, by_time: bool, has_color: bool) -> str:
    """The curves of one figure as lines of text, with a legend if there are several.

    Args:
        drawn: by task, each as the API gives it.
        columns: of the terminal, in characters.
        by_time: over seconds in place of steps; steps where one of them does not tell the time.
    """
    series = list(drawn.values())
    is_timed = by_time and all(one["times_s"] for one in series)
    return plot_to_string(
        ys=[one["values"] for one in series],
        xs=[one["times_s"] if is_timed else one["steps"] for one in series],
        title=f"{series[0]['name']} over {'seconds' if is_timed else 'steps'}",
        legend_labels=list(drawn) if len(drawn) > 1 else None,
        lines=True,
        width=max(20, columns - MARGIN),
        height=HEIGHT,
        color=has_color,
    )


def summary_line(series: JsonObject) -> str:
    """The last value of a curve, and its best."""
    last = f"{series['name']}: {series['values'][-1]:.4g} at step {series['steps'][-1]:g}"
    best = series["best"]
    return last if best is None else f"{last}, best {best['value']:.4g} at step {best['step']:g}"
