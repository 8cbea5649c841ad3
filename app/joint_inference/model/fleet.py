"""A service whose edge worker runs on every node that its nodeSelector selects. Each node is treated like a service of
one edge node, with its own parameters, order, tally and condition; this module combines them. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from app.joint_inference.model.reconciliation import ServicePlan
from app.joint_inference.model.resource import Role, Service
from app.joint_inference.model.status import Condition, ConditionType, ProblemKind, Reason
from app.joint_inference.model.tally import UPLOAD_SHARE, Breaker
from app.kit.text.json_values import JsonObject, is_number
from app.kit.text.labels import text_of
from app.kit.text.plain_text import names_text
from app.nodes.model import Node

_VARIABLE = re.compile(r"\$\((?:NODE_NAME|NODE_LABEL:([^()]+))\)")
SUMMED_AT = "summedAt"
"""When the nodes were last added up."""
CAUSES = 5
NAMES = 3
"""Number of causes, and of nodes for each, in a message."""
COUNTS = (
    "inferenceNumber",
    "hardExampleNumber",
    "uploadNumber",
    "uploadFailedNumber",
    "keptNumber",
    "fallbackNumber",
    "bytesUploaded",
    "bytesSaved",
    "bytesThisMonth",
)


def place_on(service: Service, node: Node, reported: Mapping[str, Any]) -> Service:
    """The service as it is for one of its edge nodes. In the edge worker's parameters $(NODE_NAME) is the node's name,
    and $(NODE_LABEL:site) the value of its label; that of a label which it lacks is empty.

    Args:
        reported: the last taskInfo of that node.
    """
    worker = {key: value for key, value in service.spec["edgeWorker"].items() if key != "nodeSelector"}
    pairs = [{**pair, "value": _expand(pair["value"], node)} for pair in worker["workerSpec"].get("parameters") or ()]
    worker |= {"nodeName": node.name, "workerSpec": {**worker["workerSpec"], "parameters": pairs}}
    return replace(service, spec={**service.spec, "edgeWorker": worker}, reported=reported)


def _expand(text: str, node: Node) -> str:
    return _VARIABLE.sub(lambda match: node.labels.get(match[1], "") if match[1] else node.name, text)


def fleet_plan(service: Service, plans: Mapping[str, ServicePlan]) -> ServicePlan:
    """Returns the plan of the whole service.

    Args:
        plans: of the service as it is for each of its nodes, by their names.
    """
    if not plans:
        selector = text_of(service.specification.edge.selector)
        message = f"No edge node that you may use has the labels {selector}. Label one, or select others."
        return ServicePlan(Condition(ConditionType.FAILED, Reason.NODE_NOT_FOUND, message), {}, 0, 0)
    orders = {place: content for plan in plans.values() for place, content in plan.orders.items()}
    first = next(iter(plans.values()))
    cloud, edges = first.workers[Role.CLOUD], [plan.workers[Role.EDGE] for plan in plans.values()]
    return ServicePlan(
        fleet_condition({node: plan.condition for node, plan in plans.items()}),
        orders,
        sum(worker.is_active for worker in (*edges, cloud)),
        sum(worker.counts_as_failed for worker in (*edges, cloud)),
        {**first.nodes, Role.EDGE: frozenset(plans)},
    )


def fleet_condition(conditions: Mapping[str, Condition]) -> Condition:
    """Returns Running as soon as one node runs, then Degraded as long as another does not serve; with the number of
    running nodes, and the causes with their numbers of nodes.

    Args:
        conditions: of the service for each of its nodes, by their names; at least one.
    """
    count = len(conditions)
    running = sum(condition.type is ConditionType.RUNNING for condition in conditions.values())
    troubled = {
        node: c for node, c in conditions.items() if (c.type, c.reason) != (ConditionType.RUNNING, Reason.SERVING)
    }
    head = f"{running} of {count} edge nodes run."
    first = next(iter(conditions.values()))
    if first.type is ConditionType.FAILED and all(condition == first for condition in conditions.values()):
        return first  # none of it concerns a single node
    if not troubled:
        return Condition(ConditionType.RUNNING, Reason.SERVING, head)
    causes = defaultdict[tuple[ConditionType, str], dict[str, str]](dict)
    for node, condition in troubled.items():
        causes[condition.type, condition.reason][node] = condition.message
        further = ((name, text) for name, text in condition.problems.items() if not condition.message.startswith(text))
        for problem, trouble in further:
            causes[condition.type, problem][node] = trouble
    often = sorted(causes.items(), key=lambda cause: -len(cause[1]))
    message = "\n".join([head, *(_format_cause(name, nodes) for (_, name), nodes in often[:CAUSES])])
    problems = _collect_problems(troubled)
    if running:
        kinds = {c.reason for c in troubled.values()}
        is_over = running == count and kinds == {Reason.SOURCE_ENDED} and len(troubled) == count
        if is_over:
            return Condition(ConditionType.RUNNING, Reason.SOURCE_ENDED, message)
        return Condition(ConditionType.RUNNING, Reason.DEGRADED, message, problems)
    (kind, reason), _ = Counter((c.type, c.reason) for c in troubled.values()).most_common(1)[0]
    problems.pop(ProblemKind.NODES.value, None)
    return Condition(kind, reason, message, problems)


def _collect_problems(troubled: Mapping[str, Condition]) -> dict[str, str]:
    """Returns the problems of the nodes, each once, with the number of its nodes."""
    nodes = defaultdict[str, dict[str, str]](dict)
    for node, condition in troubled.items():
        own = {} if condition.reason is Reason.DEGRADED else {ProblemKind.NODES.value: condition.message}
        for problem, message in (own | dict(condition.problems)).items():
            nodes[problem][node] = message
    return {problem: _format_cause(problem, messages) for problem, messages in nodes.items()}


def _format_cause(reason: str, messages: Mapping[str, str]) -> str:
    """Writes a cause, with the message of its first node: `NodeOffline (3): cam1, cam2, cam3. The node 'cam1' is not
    connected…`"""
    first = next(iter(messages.values())).partition("\n")[0]
    return f"{reason} ({len(messages)}): {names_text(list(messages), NAMES)}. {first}"


def sum_infos(infos: Iterable[Mapping[str, Any]]) -> JsonObject:
    """The taskInfo of the whole: counts and pictures a second are added up, p50 is the middle of the nodes', p95 that
    of the slowest, and the breaker the worst.

    Args:
        infos: the last taskInfo of each node.
    """
    known = [info for info in infos if "inferenceNumber" in info]
    if not known:
        return {}
    total: JsonObject = {key: sum(int(info.get(key) or 0) for info in known) for key in COUNTS}
    pictures = total["inferenceNumber"]
    total["uploadCloudRatio"] = round(total["hardExampleNumber"] / pictures, 4) if pictures else 0.0
    total[UPLOAD_SHARE] = round(total["uploadNumber"] / pictures, 4) if pictures else 0.0
    for key, combine in (("MsP50", median), ("MsP95", max)):
        for side in ("edge", "cloud"):
            values = _list_numbers(known, f"{side}{key}")
            total[f"{side}{key}"] = round(float(combine(values)), 3) if values else None
    rates = _list_numbers(known, "fps")
    total["fps"] = round(sum(rates), 2) if rates else None
    worst = [
        breaker for breaker in (Breaker.OPEN, Breaker.HALF_OPEN) if any(i.get("breaker") == breaker for i in known)
    ]
    total["breaker"] = (worst[0] if worst else Breaker.CLOSED).value
    total["lastError"] = next((str(info["lastError"]) for info in known if info.get("lastError")), "")
    for key, combine_times in (("startTime", min), ("updateTime", max), ("currentTime", max)):
        times = [str(info[key]) for info in known if info.get(key)]
        if times:
            total[key] = combine_times(times)
    total["phase"] = "running" if any(info.get("phase") == "running" for info in known) else known[0].get("phase", "")
    total["nodeNumber"] = len(known)
    return total


def task_info_of(reported: Mapping[str, Any]) -> JsonObject:
    """Returns the counters in what is stored."""
    return {key: value for key, value in reported.items() if key not in ("phase", SUMMED_AT)}


def _list_numbers(infos: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    values = (info.get(key) for info in infos)
    return [float(value) for value in values if is_number(value)]
