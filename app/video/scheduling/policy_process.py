"""The process that runs policies: python -m app.video.scheduling.policy_process <file descriptor of a socket>.

One JSON object per line. First it sends {"ready": true}. On a request {"policy", "call": {keyword → value}}, it sends
{"loaded": true} once it has the function, and then {"answer": [video_conf, flow_mapping], "said": its reason,
"took_ms", "state" or "state_problem"}. Failures are {"error": "raised" | "invalid" | "unknown", "reason", "took_ms"};
with "is_worn" no more requests should be sent.
"""

from __future__ import annotations

import json
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, Protocol

from app.kit.clock import ms_since
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.video.errors import UnknownPolicy
from app.video.scheduling.contract import Policy, PolicyState
from app.video.scheduling.policy_messages import RESET_KEYS
from app.video.scheduling.registry import policy_of

MEMORY_BYTES = 1 << 30
ADDRESS_BYTES = 4 << 30
MAX_STATE_BYTES = 64 << 10
MAX_SAID = 500
"""Characters of a reason."""
OVERTIME_S = 60.0
"""After which it ends by itself, if the process that should end it is gone."""


class ChannelFile(Protocol):
    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


def main(descriptor: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rwb") as stream:
        channel.set_inheritable(False)
        _send(stream, {"ready": True})
        for line in stream:
            signal.setitimer(signal.ITIMER_REAL, OVERTIME_S)
            _answer_question(stream, json.loads(line))
            signal.setitimer(signal.ITIMER_REAL, 0)


def _send(stream: ChannelFile, message: Mapping[str, Any]) -> None:
    stream.write(json.dumps(message, allow_nan=False).encode() + b"\n")
    stream.flush()


def _answer_question(stream: ChannelFile, question: Mapping[str, Any]) -> None:
    try:
        policy = policy_of(question["policy"])
    except UnknownPolicy as error:
        _send(stream, {"error": "unknown", "reason": error.message, "took_ms": 0.0})
        return
    _send(stream, {"loaded": True})
    _send(stream, _call(policy, question["call"]))


def _call(policy: Policy, call: JsonObject) -> JsonObject:
    began = time.perf_counter()
    try:
        answer = policy(**call)
    except ModelmillError as error:
        return {"error": "raised", "reason": error.message, "took_ms": ms_since(began)}
    except MemoryError:
        return {
            "error": "raised",
            "reason": "It wants too much memory",
            "took_ms": ms_since(began),
            "is_worn": True,
        }
    except Exception as error:  # noqa: BLE001  # policies are foreign code
        traceback.print_exc()
        return {
            "error": "raised",
            "reason": f"{type(error).__name__}: {error}"[:MAX_SAID],
            "took_ms": ms_since(began),
        }
    took_ms = ms_since(began)
    try:
        video_conf, flow_mapping = answer
        reply = {"answer": [video_conf, flow_mapping], "took_ms": took_ms}
        json.dumps(reply, allow_nan=False)
    except Exception as error:  # noqa: BLE001  # any object can be in it
        reason = f"It answered no pair of video_conf and flow_mapping in JSON: {error}"[:MAX_SAID]
        return {"error": "invalid", "reason": reason, "took_ms": took_ms}
    return {**reply, **_read_state(call["state"])}


def _read_state(state: PolicyState) -> PolicyState:
    memory = {key: value for key, value in state.items() if key not in RESET_KEYS}
    try:
        reason = {"said": str(memory.pop("reason", ""))[:MAX_SAID]}
        written = json.dumps(memory, allow_nan=False)
        json.dumps(memory, ensure_ascii=False).encode()
    except Exception as error:  # noqa: BLE001  # any object can be in it
        return {"said": "", "state_problem": f"it is no JSON: {error}"[:200]}
    if len(written) > MAX_STATE_BYTES:
        return {**reason, "state_problem": f"it has {len(written)} of {MAX_STATE_BYTES} bytes"}
    return {**reason, "state_problem": "it has a NUL in it"} if "\\u0000" in written else {**reason, "state": memory}


if __name__ == "__main__":
    main(int(sys.argv[1]))
