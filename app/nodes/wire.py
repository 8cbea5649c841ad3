"""What the web and a node's agent say to each other: frames, as JSON text, and what stands in them. Pure.

A frame is {"header": {…, "operation"}, "content": base64 of a JSON object}. Down come orders; up go acknowledgements
and signs of life. What arrives is checked here, so that nothing behind it meets a wrong type. Keys that are unknown
here are passed over: web and agent need not be of one version.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.kit.errors import BadRequest
from app.nodes.model import NodeReport, Operation, Order, WorkKey

MAX_UP_BYTES = 1 << 20
"""Of a frame that a node sends."""
ACKNOWLEDGE, REPORT = "acknowledge", "report"
MAX_SEQ = 2**31 - 1
MAX_SEQS = 10_000
_ADDRESS = re.compile(r"[!-~]{0,255}")
_VERSION = re.compile(r"[!-~]{0,32}")
_KEY = re.compile(r"[!-.0-~]{1,63}/[!-.0-~]{1,36}/[!-.0-~]{1,32}")
_REPORTS = TypeAdapter(NodeReport)


class BadFrame(BadRequest):
    """What arrived is no frame. The message says what is wrong with it."""

    code = "BAD_FRAME"


@dataclass(frozen=True)
class Acknowledgement:
    """The node has stored the orders of these numbers."""

    seqs: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"seqs": list(self.seqs)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Acknowledgement:
        """Raises BadFrame."""
        seqs = data.get("seqs")
        if not isinstance(seqs, list) or len(seqs) > MAX_SEQS or not all(map(_is_seq, seqs)):
            raise BadFrame(f"seqs is to be a list of at most {MAX_SEQS} numbers of orders.")
        return Acknowledgement(tuple(seqs))


@dataclass(frozen=True)
class SignOfLife:
    """version: the agent's. address: where other machines reach the workers of this one.

    known: what the node has stored, str(WorkKey) → seq; only in the first of a connection, else None.
    """

    version: str
    address: str
    report: NodeReport = field(default_factory=NodeReport)
    known: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        said = {"version": self.version, "address": self.address, "report": self.report.to_json()}
        return said if self.known is None else {**said, "known": dict(self.known)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SignOfLife:
        """Raises BadFrame."""
        version, address = (data.get(name, "") for name in ("version", "address"))
        for name, text, form in (("version", version, _VERSION), ("address", address, _ADDRESS)):
            if not isinstance(text, str) or form.fullmatch(text) is None:
                raise BadFrame(f"{name} is to be a short text without blanks.")
        return SignOfLife(version, address, _report(data.get("report")), _known(data.get("known")))


def order_frame(order: Order) -> dict[str, Any]:
    """What a node is sent; as an object, for the long poll answers with a list of them."""
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
    return _frame(header, order.content)


def order_of(frame: Mapping[str, Any], node: str) -> Order:
    """The order in a frame that came down to this node. Raises BadFrame.

    Of what the web does not know it knows no names either: it tells to end it by its key.
    """
    header, content = _opened(frame)
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


def acknowledge_frame(seqs: Collection[int]) -> dict[str, Any]:
    return _frame({"operation": ACKNOWLEDGE}, Acknowledgement(tuple(seqs)).to_json())


def report_frame(sign: SignOfLife) -> dict[str, Any]:
    return _frame({"operation": REPORT}, sign.to_json())


def heard(frame: Mapping[str, Any]) -> Acknowledgement | SignOfLife:
    """What a node says in a frame that came up. Raises BadFrame."""
    header, content = _opened(frame)
    operation = header.get("operation")
    if operation == ACKNOWLEDGE:
        return Acknowledgement.from_json(content)
    if operation == REPORT:
        return SignOfLife.from_json(content)
    raise BadFrame(f"The operation of a node's frame is {ACKNOWLEDGE} or {REPORT}.")


def written(data: Mapping[str, Any]) -> str:
    """A frame as text."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


def read(text: str | bytes) -> dict[str, Any]:
    """Any JSON object of these conversations: a frame, or a body of the long poll.

    Raises BadFrame, also for numbers that are infinite and texts that are none of Unicode's: they could be kept, and
    then not be shown.
    """
    try:
        data = json.loads(text, parse_constant=_number, parse_float=_number)
        json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise BadFrame("This is no JSON.") from None
    if not isinstance(data, dict):
        raise BadFrame("This is to be a JSON object.")
    return data


def _frame(header: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    return {"header": dict(header), "content": base64.b64encode(written(content).encode()).decode()}


def _opened(frame: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    header, content = frame.get("header"), frame.get("content")
    if not isinstance(header, dict) or not isinstance(content, str):
        raise BadFrame("A frame has a header, an object, and a content, a text.")
    try:
        return header, read(base64.b64decode(content, validate=True))
    except (binascii.Error, ValueError):
        raise BadFrame("The content of a frame is to be base64.") from None


def _report(data: object) -> NodeReport:
    try:
        return _REPORTS.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise BadFrame(f"{'.'.join(['report', *map(str, first['loc'])])}: {first['msg']}") from None


def _known(data: object) -> dict[str, int] | None:
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


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number")
    return value
