"""Video jobs and related data as tables and lines. Pure: JSON in, renderables out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from app.kit.cli.tables import table_of
from app.kit.clock import age

Json = Mapping[str, Any]
COLORS = {"EXEC": "green", "UNSCHED": "yellow", "error": "red", "cancelled": "yellow", "finished": "green"}


def jobs_table(records: Iterable[Json], now: datetime) -> Table:
    table = table_of("job", "node", "video", "state", "policy", "frames", "delay", "fps", "age", "")
    for record in records:
        state = state_of(record)
        table.add_row(
            escape(f"{record['uid']}  {record['name']}".rstrip()),
            escape(record["node"]),
            escape(record["video_id"]),
            Text(state, style=COLORS.get(record["ending"] or record["state"], "")),
            escape(record["policy"]),
            str(record["n_loop"]),
            seconds(record["delay_s"]),
            number(record["fps"]),
            age(record["created_at"], now),
            escape("  ".join([*flags_of(record), record["reason"]]).strip()),
        )
    return table


def job_lines(record: Json) -> Iterator[str]:
    """Everything about a job."""
    yield f"job         {record['uid']}"
    if record["name"]:
        yield f"name        {record['name']}"
    yield f"state       {state_of(record)}  {record['reason']}".rstrip()
    yield f"video       {record['video_id']} of node {record['node']}"
    yield f"flow        {flow_of(record['dag'])}"
    yield f"policy      {record['policy']}"
    yield f"constraint  {pairs(record['constraint']) or 'none'}"
    if record["flags"]:
        yield f"flags       {', '.join(flags_of(record))}"
    if record["mode"] == "profile":
        yield f"progress    {record['progress']:.0%}"
    yield f"created     {record['created_at']}"
    if record["ended_at"]:
        yield f"ended       {record['ended_at']}"
    yield f"frames      {record['n_loop']}"
    if record["broadcast"]:
        yield f"broadcast   {broadcast_of(record['broadcast'])}"
    yield from plan_lines(record["plan"])
    if record["plan"] and "fps" not in record["generator_output"]:
        yield "source      its rate is not known yet: the plan's fps is a limit"
    yield from result_lines(record["plan_result"])


def plan_lines(plan: Json | None) -> Iterator[str]:
    if plan is None:
        return
    yield f"plan        {plan['seq']}, by {plan['policy'].removeprefix('by ') or 'hand'}: {pairs(plan['video_conf'])}"
    for stage, place in plan["flow_mapping"].items():
        where = place.get("node") or place["node_ip"]
        yield f"stage       {stage}: model {place['model_id']} on {where} ({place['node_role']})"


def result_lines(result: Json) -> Iterator[str]:
    for stage, delay in result.get("delay", {}).items():
        quality = [f"F1 {result['iou'][stage]:.3f}"] if stage in result.get("iou", {}) else []
        quality += [f"MAE {result['mae'][stage]:.2f}°"] if stage in result.get("mae", {}) else []
        yield f"delay       {stage}: {'  '.join([seconds(delay), *quality])}"
    if "e2e_p50" in result:
        yield f"end to end  p50 {seconds(result['e2e_p50'])}, p95 {seconds(result.get('e2e_p95'))}"
    if "fps" in result:
        yield f"rate        {number(result['fps'])} frames/s"
    if still := result.get("still"):
        yield f"still       {still} frames not processed, {still / (still + result['frames']):.0%}"


def decisions_table(records: Iterable[Json]) -> Table:
    table = table_of("at", "plan", "policy", "asked by", "outcome", "took", "")
    for decision in records:
        table.add_row(
            decision["at"],
            str(decision["seq"]),
            escape(decision["policy"]),
            decision["why"],
            decision["outcome"],
            f"{decision['took_ms']:.1f} ms",
            escape(decision["reason"]),
        )
    return table


def nodes_table(records: Iterable[Json]) -> Table:
    table = table_of("node", "address", "online", "video", "type", "name", "size", "")
    for node in records:
        for video_id, video in node["videos"].items():
            table.add_row(
                escape(node["node"]),
                node["address"],
                "yes" if node["is_online"] else "no",
                escape(video_id),
                escape(video.get("type", "")),
                escape(video.get("name", "")),
                video.get("size", ""),
                escape(video.get("problem", "")),
            )
    return table


def stages_table(records: Iterable[Json]) -> Table:
    table = table_of("stage", "kind", "models, big first", "parameters")
    for stage in records:
        models = ", ".join("+".join(names) for names in stage["models"])
        if stage.get("problem"):
            models += f"\n! older versions: {stage['problem']}"
        table.add_row(escape(stage["name"]), escape(stage["kind"]), escape(models), escape(pairs(stage["parameters"])))
    return table


def kinds_table(record: Json) -> Table:
    table = table_of("kind", "takes", "gives", "compared by", "models", "parameters")
    for name, outputs in record["generators"].items():
        table.add_row(escape(name), "–", _format_fields(outputs), "–", "–", "–")
    for kind in record["kinds"]:
        taken = _format_fields(kind["inputs"], optional=kind["optional"])
        table.add_row(
            escape(kind["name"]),
            taken,
            _format_fields(kind["outputs"]),
            kind["metric"] or "–",
            str(kind["models"]),
            escape(", ".join(kind["parameters"])) or "–",
        )
    return table


def policies_table(record: Json) -> Table:
    table = table_of("policy", "what it does")
    for name, what in record["policies"].items():
        table.add_row(escape(name) + (" (default)" if name == record["default"] else ""), escape(what))
    return table


def predictions_table(records: Iterable[Json]) -> Table:
    table = table_of("delay", "fps", "up", "quality", "bottleneck", "resolution", "where", "")
    for prediction in records:
        where = ", ".join(f"{stage}→{place.get('node_role')}" for stage, place in prediction["flow_mapping"].items())
        table.add_row(
            seconds(prediction["delay_s"]),
            number(prediction["fps"]),
            f"{prediction['bytes_up'] / 1000:.1f} kB",
            f"{prediction['quality']:.2f}",
            escape(prediction["bottleneck"]),
            prediction["video_conf"]["resolution"],
            escape(where),
            "" if prediction["is_measured"] else "guessed",
        )
    return table


def measurements_table(records: Iterable[Json]) -> Table:
    table = table_of("node", "stage", "model", "size", "delay", "frame", "quality", "frames")
    for row in records:
        table.add_row(
            escape(row["node"]),
            escape(row["stage"]),
            str(row["model_id"]),
            row["resolution"],
            seconds(row["delay_s"]),
            f"{row['bytes'] / 1000:.1f} kB",
            f"{row['quality']:.3f}",
            str(row["frames"]),
        )
    return table


def state_of(record: Json) -> str:
    return f"{record['state']} {record['ending']}" if record["ending"] else str(record["state"])


def flags_of(record: Json) -> list[str]:
    since = f" since {record['no_signal_since']}" if record.get("no_signal_since") else ""
    return [f"no signal{since}" if flag == "no_signal" else flag for flag in record["flags"]]


def broadcast_of(state: Json) -> str:
    is_sending = "sending" if state["is_sending"] else "not sending"
    counts = f"{state['frames']} frames, {state['connections']} connections, {state['core_share']:.0%} of a core"
    return f"{state['url']}: {is_sending}; {counts}" + (
        f"; last problem: {state['problem']}" if state["problem"] else ""
    )


def flow_of(dag: Json) -> str:
    flow = dag["flow"]
    if isinstance(flow, list):
        return " → ".join(flow)
    return "; ".join(f"{', '.join(before)} → {stage}" for stage, before in flow.items())


def pairs(record: Json | None) -> str:
    return ", ".join(f"{key} {value}" for key, value in (record or {}).items())


def seconds(value: float | None) -> str:
    return "–" if value is None else f"{1000 * value:.1f} ms"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _format_fields(fields: Json, optional: Iterable[str] = ()) -> str:
    left_out = set(optional)
    return ", ".join(f"{name}{'?' if name in left_out else ''}: {of}" for name, of in fields.items())
