"""JSON bodies that nobody would send by mistake: each is taken or refused in words, and none makes the web stumble."""

from __future__ import annotations

import re

import httpx
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from app.conversion.schemas import NewJob, NewLinks
from tests.fuzz.documents import documents
from tests.fuzz.test_submissions import FLOOR, MANY, SEED, unclear
from tests.harness.deployment import Deployment

pytestmark = pytest.mark.slow
BODIES = st.tuples(st.just("/jobs"), documents(NewJob)) | st.tuples(st.just("/uploads/presign"), documents(NewLinks))


@pytest.mark.timeout(600 + MANY)
@pytest.mark.parametrize("count", [FLOOR, pytest.param(max(MANY // 5, 100), marks=pytest.mark.exhaustive)])
def test_every_document_gets_a_clear_answer(service: Deployment, count: int) -> None:
    print(f"MODELMILL_FUZZ_SEED={SEED}; hypothesis prints the body that failed")
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:

        @seed(SEED)
        @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(BODIES)
        def send(sent: tuple[str, bytes]) -> None:
            answer = client.post(sent[0], content=sent[1], headers={"Content-Type": "application/json"})
            assert not (problem := unclear(answer)), f"{problem}\n{sent[1][:300]!r}"

        send()
    assert [process.poll() for process in service.processes] == [None] * len(service.processes)


def test_no_operation_stumbles_over_what_is_nested_deeply(service: Deployment) -> None:
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
        for path, verbs in client.get("/openapi.json").json()["paths"].items():
            for verb in verbs.keys() & {"post", "put", "patch"}:
                place, headers = re.sub(r"{\w+}", "x", path), {"Content-Type": "application/json"}
                answer = client.request(verb, place, content=b'{"x":' * 20_000, headers=headers)
                assert answer.status_code < 500 or answer.status_code in (501, 503), f"{verb} {path}"
