"""How many jobs may be under way at once: refused in words, in every language and form, and nothing is lost by it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from app.bootstrap.container import Container
from app.cli import main
from app.conversion import model
from app.conversion.errors import TooManyJobs
from app.conversion.model import JobRecord, Stage
from app.conversion.options import Options, ToolchainName
from app.conversion.service import Admission
from app.conversion.service.estimates import pace
from app.kit.cli.command import Exit
from app.kit.clock import now, to_text
from app.settings import Settings
from tests.harness.api import Api, keys, pngs, small_model
from tests.harness.conversion_jobs import past_job
from tests.harness.deployment import Deployment

PLACES, OWN_PLACES = 5, 3
NEW = "/ui/jobs/new"
ENGLISH = f"You have {OWN_PLACES} unfinished jobs, and more are not accepted."
CHINESE = f"您有 {OWN_PLACES} 個尚未結束的工作"


# --- the count ----------------------------------------------------------------------------------------
@pytest.fixture
def admission(container: Container, settings: Settings) -> Admission:
    limited = settings.model_copy(update={"max_active_jobs": PLACES, "max_active_jobs_per_user": OWN_PLACES})
    return Admission(limited, container.store, container.conversion.estimates)


def job_of(owner: str) -> JobRecord:
    return model.submitted(
        str(uuid4()), now=to_text(now()), owner=owner, name="", tags=(), options=Options(), inputs={}, intake={}
    )


def admit(container: Container, admission: Admission, record: JobRecord) -> JobRecord:
    admission.admit(record, score=1.0, message=container.conversion.dispatch.prepare(Stage.ONNX, record.job_id))
    return record


def test_a_hundred_submissions_at_once_get_no_more_places_than_there_are(
    container: Container, admission: Admission
) -> None:
    def attempt(number: int) -> bool:
        try:
            admit(container, admission, job_of(f"user {number % 3}"))
        except TooManyJobs:
            return False
        return True

    with ThreadPoolExecutor(100) as pool:
        assert sum(pool.map(attempt, range(100))) == PLACES
    assert len(list(container.store.active())) == container.broker.waiting("onnx") == PLACES
    owners = [record.owner for record in container.store.active()]
    assert max(owners.count(owner) for owner in owners) <= OWN_PLACES


def test_one_users_limit_is_not_anothers(container: Container, admission: Admission) -> None:
    for _ in range(OWN_PLACES):
        admit(container, admission, job_of("ann"))
    with pytest.raises(TooManyJobs, match=f"You have {OWN_PLACES} unfinished jobs") as refused:
        admit(container, admission, job_of("ann"))
    assert refused.value.detail["is_own"]
    admission.check("bob", ToolchainName.HOST)
    for _ in range(PLACES - OWN_PLACES):
        admit(container, admission, job_of("bob"))
    with pytest.raises(TooManyJobs, match=f"There are {PLACES} unfinished jobs") as refused:
        admission.check("bob", ToolchainName.HOST)
    assert not refused.value.detail["is_own"]


def _end(container: Container, job_id: str) -> None:
    container.store.apply(job_id, model.cancelled(Stage.ONNX, now=to_text(now())))


def _delete(container: Container, job_id: str) -> None:
    container.store.delete(job_id)


def _vanish(container: Container, job_id: str) -> None:
    """As when Redis evicts it, or a deletion is cut off: the sweep finds out."""
    container.redis.delete(f"job:{job_id}")
    container.conversion.dispatch.sweep()


@pytest.mark.parametrize("leave", [_end, _delete, _vanish], ids=["ends", "is deleted", "vanishes"])
def test_a_job_that_leaves_makes_room_for_one_more_and_no_other(
    container: Container, admission: Admission, leave: Callable[[Container, str], None]
) -> None:
    first, *_ = [admit(container, admission, job_of("ann")) for _ in range(OWN_PLACES)]
    leave(container, first.job_id)
    admit(container, admission, job_of("ann"))
    with pytest.raises(TooManyJobs):
        admit(container, admission, job_of("ann"))


def test_a_creation_whose_answer_was_lost_and_that_is_repeated_is_not_refused_for_its_own_sake(
    container: Container, admission: Admission
) -> None:
    record = [admit(container, admission, job_of("ann")) for _ in range(OWN_PLACES)][-1]
    admit(container, admission, record)
    assert len(list(container.store.active())) == OWN_PLACES
    assert container.broker.waiting("onnx") == OWN_PLACES


def test_the_next_place_is_expected_when_the_narrowest_stage_lets_a_job_through() -> None:
    pasts = [past_job(10, 90, 40)] * 3
    assert pace(pasts, {Stage.ONNX: 1, Stage.BIE: 1, Stage.NEF: 1}) == 90
    assert pace(pasts, {Stage.ONNX: 1, Stage.BIE: 3, Stage.NEF: 1}) == 40
    assert pace(pasts[:2], {Stage.ONNX: 1, Stage.BIE: 1, Stage.NEF: 1}) is None
    assert pace(pasts, {Stage.ONNX: 1, Stage.BIE: 0, Stage.NEF: 1}) is None


# --- the service --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A service with few places and no workers, so that jobs stay where they are."""
    limits = {"max_active_jobs": str(PLACES), "max_active_jobs_per_user": str(OWN_PLACES)}
    with Deployment(tmp_path_factory.mktemp("crowded"), **limits) as deployment:
        deployment.web()
        yield deployment


@pytest.fixture
def api(crowded: Deployment) -> Iterator[Api]:
    """A client of the crowded service, with no job there yet."""
    with Api(crowded.url) as client:
        for job_id in client.job_ids():
            client.http.post(f"/jobs/{job_id}/cancel")
        yield client


@pytest.fixture
def full(api: Api) -> list[str]:
    """Every place of ours is taken; the jobs that have them."""
    body = asked(api)
    return [api.http.post("/jobs", json=body).json()["job_id"] for _ in range(OWN_PLACES)]


def asked(api: Api) -> dict[str, str]:
    stored = api.upload(small_model(), pngs(3))
    return {"model_key": stored["model_key"], "quant_key": stored["quant_key"]}


def page_of(service: Deployment, language: str = "en") -> httpx.Client:
    headers = {"Origin": service.url, "Accept": "text/html", "Accept-Language": language}
    return httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False)


def test_of_forty_submissions_sent_at_once_three_become_jobs_and_the_others_leave_nothing(
    crowded: Deployment, api: Api
) -> None:
    body = asked(api)
    before = {key.split("/")[1] for key in keys(crowded, "jobs/")}
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: api.http.post("/jobs", json=body), range(40)))
    made = {answer.json()["job_id"] for answer in answers if answer.status_code == 201}
    assert len(made) == OWN_PLACES
    refusals = {answer.json()["error"]["code"] for answer in answers if answer.status_code != 201}
    assert {"TOO_MANY_JOBS"} <= refusals <= {"TOO_MANY_JOBS", "SANDBOX_BUSY"}, (
        "the second where too many wait for checks"
    )
    assert {key.split("/")[1] for key in keys(crowded, "jobs/")} - before == made


@pytest.mark.usefixtures("full")
def test_the_refusal_says_when_to_try_again(api: Api) -> None:
    answer = api.http.post("/jobs", json=asked(api))
    assert answer.status_code == 429
    error = answer.json()["error"]
    assert (error["code"], error["can_retry"]) == ("TOO_MANY_JOBS", True)
    assert error["message"] == ENGLISH
    assert int(answer.headers["retry-after"]) == error["detail"]["retry_after_s"] > 0
    assert f"Try again in about {error['detail']['retry_after_s']} s" in error["hint"]


def test_a_refused_submission_succeeds_unchanged_once_a_job_has_ended(api: Api, full: list[str]) -> None:
    body = asked(api)
    assert api.http.post("/jobs", json=body).status_code == 429
    api.http.post(f"/jobs/{full[0]}/cancel")
    assert api.http.post("/jobs", json=body).status_code == 201


@pytest.mark.parametrize(("language", "words"), [("en", ENGLISH), ("zh-TW", CHINESE)])
def test_the_form_says_so_and_keeps_all_that_was_typed_and_uploaded(
    crowded: Deployment, api: Api, full: list[str], language: str, words: str
) -> None:
    files = [("model", ("mine.onnx", small_model())), *(("images", file) for file in pngs(3))]
    typed = {"name": "kept name", "tags": "kept tag", "pre": "custom", "pre_was": "custom", "preprocess.mean": "7"}
    with page_of(crowded, language) as page:
        answer = page.post(NEW, data=typed, files=files)
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        assert words in answer.text
        shown = dict(re.findall(r'name="([\w.]+)" value="([^"]*)"', answer.text))
        assert shown["model_name"] == "mine.onnx"
        again = {name: shown[name] for name in (*typed, "model_key", "quant_key") if name in shown}
        again |= {"pre": "custom", "pre_was": "custom"}
        assert {name: again[name] for name in typed} == typed
        api.http.post(f"/jobs/{full[0]}/cancel")
        sent = page.post(NEW, data=again, files=[("model", ("", b"")), ("images", ("", b""))])
    assert sent.status_code == 303, sent.text
    job = api.job(sent.headers["location"].removeprefix("/ui/jobs/"))
    assert (job["name"], job["tags"], job["options"]["preprocess"]["mean"]) == ("kept name", ["kept tag"], [7.0])


@pytest.mark.usefixtures("full")
def test_the_sample_is_refused_on_the_page_where_it_was_asked_for(crowded: Deployment) -> None:
    with page_of(crowded) as page:
        answer = page.post(f"{NEW}/sample")
    assert answer.status_code == 429
    assert ENGLISH in answer.text and 'id="new-form"' in answer.text


@pytest.mark.parametrize(("language", "words"), [("en", ENGLISH), ("zh-TW", CHINESE)])
def test_a_job_that_a_reset_forgot_can_still_be_submitted_later_when_there_is_no_room_now(
    crowded: Deployment, api: Api, full: list[str], language: str, words: str
) -> None:
    forgotten, other, *_ = full
    crowded.redis.delete(f"job:{forgotten}")
    crowded.redis.zrem("jobs:active", forgotten)
    body = asked(api)
    assert api.http.post("/jobs", json=body).status_code == 201
    with page_of(crowded, language) as page:
        refused = page.post(f"/ui/jobs/{forgotten}/resubmit")
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
        assert words in refused.text and f'action="/ui/jobs/{forgotten}/resubmit?once=' in refused.text
        api.http.post(f"/jobs/{other}/cancel")
        assert page.post(f"/ui/jobs/{forgotten}/resubmit").status_code == 303


def test_the_document_of_the_api_lists_the_refusal(api: Api) -> None:
    assert "429" in api.http.get("/openapi.json").json()["paths"]["/jobs"]["post"]["responses"]


@pytest.mark.usefixtures("full")
def test_the_command_line_says_when_to_try_again_and_exits_as_busy(
    crowded: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.onnx").write_bytes(small_model())
    (tmp_path / "one.png").write_bytes(pngs(1)[0][1])
    command = ["modelmill", "convert", str(tmp_path / "mine.onnx"), str(tmp_path / "one.png"), "--url", crowded.url]
    monkeypatch.setattr(sys, "argv", command)
    assert main.main() == Exit.BUSY
    stderr = capsys.readouterr().err
    assert ENGLISH in stderr
    assert re.search(r"Try again in about \d+ s", stderr)


def test_the_exit_code_of_a_busy_service_is_documented(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["modelmill", "convert", "--help"])
    with pytest.raises(SystemExit):
        main.main()
    assert f"{Exit.BUSY:d} busy, try again later" in re.sub(r"\s+", " ", capsys.readouterr().out)
