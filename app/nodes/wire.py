"""The protocol of the web and the nodes' agents: frames, as JSON text, and their contents. Pure.

A frame is {"header": {…, "operation"}, "content": base64 of a JSON object}. The web server sends orders; the agent
sends acknowledgements and heartbeats. All input is validated here. Unknown keys are ignored: web server and agent may
have different versions.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.kit.errors import BadRequest
from app.kit.text.json_form import FormError
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_json
from app.nodes.model import NODE_REPORT, NodeReport, Operation, Order, WorkKey

MAX_UP_BYTES = 1 << 20
"""Maximum size of a frame from a node."""
ACKNOWLEDGE, REPORT = "acknowledge", "report"
MAX_SEQ = 2**31 - 1
MAX_SEQS = 10_000
_ADDRESS = re.compile(r"[!-~]{0,255}")
_VERSION = re.compile(r"[!-~]{0,32}")
_KEY = re.compile(r"[!-.0-~]{1,63}/[!-.0-~]{1,36}/[!-.0-~]{1,32}")


class BadFrame(BadRequest, code="BAD_FRAME"):
    """The received data are not a frame; the message says why."""


@dataclass(frozen=True)
class Acknowledgement:
    """The node has stored the orders with these numbers."""

    seqs: tuple[int, ...]

    def to_json(self) -> JsonObject:
        return {"seqs": list(self.seqs)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Acknowledgement:
        seqs = data.get("seqs")
        if not isinstance(seqs, list) or len(seqs) > MAX_SEQS or not all(map(_is_seq, seqs)):
            raise BadFrame(f"seqs is to be a list of at most {MAX_SEQS} numbers of orders.")
        return Acknowledgement(tuple(seqs))


@dataclass(frozen=True)
class Heartbeat:
    """The message that a node sends periodically, and whenever something has changed."""

    version: str
    """The version of the agent."""
    address: str
    """The address at which other machines reach the workers of this one."""
    report: NodeReport = field(default_factory=NodeReport)
    order_seqs: Mapping[str, int] | None = None
    """The numbers of the stored orders by str(WorkKey); only in the first heartbeat of a connection."""

    def to_json(self) -> JsonObject:
        data = {"version": self.version, "address": self.address, "report": NODE_REPORT.write(self.report)}
        return data if self.order_seqs is None else {**data, "known": dict(self.order_seqs)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Heartbeat:
        version, address = (data.get(name, "") for name in ("version", "address"))
        for name, text, form in (("version", version, _VERSION), ("address", address, _ADDRESS)):
            if not isinstance(text, str) or form.fullmatch(text) is None:
                raise BadFrame(f"{name} is to be a short text without blanks.")
        return Heartbeat(version, address, _report(data.get("report")), _order_seqs(data.get("known")))


def order_frame(order: Order) -> JsonObject:
    """Returns the frame of an order as an object: a long poll is answered with a list of them."""
    header = {
        "namespace": order.namespace,
        "resourceKind": order.key.kind,
        "resourceName": order.name,
        "operation": order.operation.value,
        "uid": order.key.uid,
        "part": order.key.part,
        "seq": order.seq,
        "generation": order.generation,
    }
    return _make_frame(header, order.content)


def parse_order(frame: Mapping[str, Any], node: str) -> Order:
    """Returns the order in a frame to this node. A deletion of work that the web server does not know has only a key.

    Raises:
        BadFrame: It is not an order.
    """
    header, content = _unpack(frame)
    wrong = [name for name in ("resourceKind", "uid", "part") if not _is_text(header.get(name)) or not header[name]]
    wrong += [name for name in ("namespace", "resourceName") if not _is_text(header.get(name))]
    numbers = [header.get(name) for name in ("seq", "generation")]
    if wrong or not all(map(_is_seq, numbers)) or header.get("operation") not in list(Operation):
        raise BadFrame(f"The header of an order lacks something: {', '.join(wrong) or 'seq, generation or operation'}.")
    return Order(
        seq=header["seq"],
        node=node,
        key=WorkKey(header["resourceKind"], header["uid"], header["part"]),
        namespace=header["namespace"],
        name=header["resourceName"],
        operation=Operation(header["operation"]),
        generation=header["generation"],
        content=content,
    )


def acknowledge_frame(seqs: Collection[int]) -> JsonObject:
    return _make_frame({"operation": ACKNOWLEDGE}, Acknowledgement(tuple(seqs)).to_json())


def report_frame(heartbeat: Heartbeat) -> JsonObject:
    return _make_frame({"operation": REPORT}, heartbeat.to_json())


def parse_message(frame: Mapping[str, Any]) -> Acknowledgement | Heartbeat:
    """Returns the message in a frame of a node.

    Raises:
        BadFrame: It has another form.
    """
    header, content = _unpack(frame)
    operation = header.get("operation")
    if operation == ACKNOWLEDGE:
        return Acknowledgement.from_json(content)
    if operation == REPORT:
        return Heartbeat.from_json(content)
    raise BadFrame(f"The operation of a node's frame is {ACKNOWLEDGE} or {REPORT}.")


def dump_frame(data: Mapping[str, Any]) -> str:
    """Returns a frame as text."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


def read(text: str | bytes) -> JsonObject:
    """Reads a JSON object of this protocol: a frame, or a body of the long poll.

    Raises:
        BadFrame: It is not a JSON object, or contains infinite numbers or invalid Unicode, which could be stored but
            not be shown.
    """
    try:
        data = read_json(text, is_strict=True)
    except UnreadableJson:
        raise BadFrame("This is no JSON.") from None
    if not isinstance(data, dict):
        raise BadFrame("This is to be a JSON object.")
    return data


def _make_frame(header: Mapping[str, Any], content: Mapping[str, Any]) -> JsonObject:
    return {"header": dict(header), "content": base64.b64encode(dump_frame(content).encode()).decode()}


def _unpack(frame: Mapping[str, Any]) -> tuple[Mapping[str, Any], JsonObject]:
    header, content = frame.get("header"), frame.get("content")
    if not isinstance(header, dict) or not isinstance(content, str):
        raise BadFrame("A frame has a header, an object, and a content, a text.")
    try:
        return header, read(base64.b64decode(content, validate=True))
    except (binascii.Error, ValueError):
        raise BadFrame("The content of a frame is to be base64.") from None


def _report(data: object) -> NodeReport:
    try:
        return NODE_REPORT.read(data)
    except FormError as error:
        raise BadFrame(str(FormError(("report", *error.place), error.problem))) from None


def _order_seqs(data: object) -> dict[str, int] | None:
    if data is None:
        return None
    if not isinstance(data, dict) or len(data) > MAX_SEQS:
        raise BadFrame(f"known is to be an object with at most {MAX_SEQS} keys.")
    for key, seq in data.items():
        if _KEY.fullmatch(key) is None or not _is_seq(seq):
            raise BadFrame("known is to have the form {kind/uid/part: number of an order}.")
    return data


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_seq(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEQ
