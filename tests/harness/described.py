"""Requests made from the OpenAPI document, as described and otherwise, for a limited time per operation.

MODELMILL_FUZZ_SEED makes others; MODELMILL_FUZZ_COUNT, for longer runs, is the number per operation whatever it takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.kit.web import tus
from app.kit.web.operations import Operation
from tests.harness.timed_search import TIMES

AnyCase = schemathesis.Case[Any]

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
MODES = schemathesis.GenerationMode
SEED = int(os.environ.get("MODELMILL_FUZZ_SEED", "1"))
COUNT = os.environ.get("MODELMILL_FUZZ_COUNT")
ROUND, ROUNDS, BUDGET_S = 2, 12, 0.03 * TIMES
"""Requests of a round, rounds of an operation and mode, and the time after which no further one begins."""


@schemathesis.serializer(tus.BODY_TYPE)
def part_of_upload(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """A part of a resumable upload is bytes, whatever was generated."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def document_of(url: str) -> Any:
    """Of a running service, ready to be tested against it."""
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


def trials(operations: Iterable[Operation]) -> list[Any]:
    """Each operation with requests as described, and with others where something can be wrong. Without a body those are
    requests for what there is not, as described ones are, or have a wrong query, which is read as with a body."""
    return [
        pytest.param(
            operation,
            mode,
            id=f"{operation.method} {operation.path} {mode.value}",
            marks=[pytest.mark.exhaustive] * (mode is MODES.NEGATIVE and not operation.body),
        )
        for operation in operations
        for mode in MODES
        if mode is MODES.POSITIVE or operation.body or operation.query or "{" in operation.path
    ]


def assert_answers_as_described(
    document: Any, operation: Operation, mode: schemathesis.GenerationMode, headers: Mapping[str, str] | None = None
) -> None:
    """headers: sent with each request."""
    rounds = max(1, int(COUNT) // ROUND) if COUNT else ROUNDS
    until = time.monotonic() + BUDGET_S
    print(f"seed {SEED}")
    cases = document[operation.described_path][operation.method].as_strategy(generation_mode=mode)
    with requests.Session() as session:
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        session.trust_env = False
        for number in range(rounds):
            if number and not COUNT and time.monotonic() > until:
                break
            _try_out(cases, session, seed=SEED * 1000 + number, headers=headers or {})


def _try_out(
    cases: SearchStrategy[AnyCase], session: requests.Session, *, seed: int, headers: Mapping[str, str]
) -> None:
    @hypothesis.seed(seed)
    @given(case=cases)
    @settings(
        max_examples=ROUND,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: AnyCase) -> None:
        given_headers: dict[str, Any] = {"headers": dict(headers)} if headers else {}
        case.call_and_validate(checks=CHECKS, session=session, timeout=60, **given_headers)

    check()
