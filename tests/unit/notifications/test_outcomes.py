"""What becomes of a message after a try, and what its reader is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from app.kit.clock import from_text
from app.notifications.errors import BadAddress
from app.notifications.model import Delivery, DeliveryState, EventKind, Outcome
from app.notifications.senders.post import outcome_of
from app.notifications.service.outbox import after
from app.notifications.service.targets import check_mail
from app.notifications.texts import message_text, subject_line

AT = "2026-11-24T00:00:00.000Z"
DELIVERY = Delivery("msg_1", "t", "job.failed", "{}", DeliveryState.PENDING, 0, AT, AT, AT)
NO = Outcome(False, 500)


def seconds(delivery: Delivery, outcome: Outcome, passed: timedelta = timedelta()) -> tuple[DeliveryState, float]:
    moment = from_text(AT) + passed
    state, due_at = after(delivery, outcome, moment)
    return state, (due_at - moment).total_seconds()


def test_pauses_grow_up_to_their_longest() -> None:
    pauses = [seconds(replace(DELIVERY, tries=tries), NO)[1] for tries in (0, 1, 2, 20)]
    assert pauses == [30, 60, 120, 4 * 3600]


def test_it_is_given_up_when_the_next_try_would_come_after_a_day() -> None:
    late = replace(DELIVERY, tries=20)
    assert seconds(late, NO, timedelta(hours=19))[0] is DeliveryState.PENDING
    assert seconds(late, NO, timedelta(hours=21))[0] is DeliveryState.FAILED


def test_a_receiver_may_ask_for_a_longer_pause_and_not_for_a_shorter_one() -> None:
    for asked_s, paused in ((600.0, 600.0), (1.0, 30.0)):
        assert seconds(DELIVERY, Outcome(False, 429, retry_after_s=asked_s)) == (DeliveryState.PENDING, paused)


def test_what_is_refused_for_good_is_not_tried_again() -> None:
    assert seconds(DELIVERY, Outcome(False, 550, is_final=True))[0] is DeliveryState.FAILED


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (204, {}, Outcome(True, 204)),
        (503, {"Retry-After": "120"}, Outcome(False, 503, "it answered 503", retry_after_s=120.0)),
        (503, {"Retry-After": "999999999"}, Outcome(False, 503, "it answered 503", retry_after_s=86400.0)),
        (503, {"Retry-After": "soon"}, Outcome(False, 503, "it answered 503")),
    ],
)
def test_an_answer_means_something(status: int, headers: dict[str, str], expected: Outcome) -> None:
    assert outcome_of(httpx.Response(status, headers=headers)) == expected


def test_a_subject_is_one_line_whatever_a_job_is_called() -> None:
    line = subject_line(EventKind.JOB_FAILED, {"name": "a\r\nBcc: everybody@example.org"}, "en")
    assert line == "The job a Bcc: everybody@example.org has failed."


def test_a_text_says_why_and_where() -> None:
    data = {"name": "yolo", "reason": "out of memory", "hint": "Use less.", "url": "https://mill/ui/jobs/1"}
    assert message_text(EventKind.JOB_FAILED, data, "en").splitlines() == [
        "The job yolo has failed.",
        "Reason: out of memory",
        "Use less.",
        "",
        "https://mill/ui/jobs/1",
    ]


def test_a_failure_is_told_in_the_readers_language() -> None:
    """What was written where it arose stands behind a sentence that has no place for its facts."""
    failure = {
        "name": "yolo",
        "code": "STAGE_OUT_OF_MEMORY",
        "reason": "It needed more than 2 GiB.",
        "hint": "Use fewer or smaller reference pictures or fewer threads, or ask the operator for a higher limit.",
    }
    _, reason, hint = message_text(EventKind.JOB_FAILED, failure, "zh-Hant").splitlines()
    assert reason == "原因：這個階段需要的記憶體超過上限。 It needed more than 2 GiB."
    assert hint.startswith("請使用較少或較小的參考圖片")
    _, reason = message_text(EventKind.TASK_FAILED, {"name": "a", "reason": "no room"}, "zh-Hant").splitlines()
    assert reason == "原因：no room"


@pytest.mark.parametrize(("verdict", "told"), [("PASSED", "3.2 dB"), ("BELOW_RULE", "3.2 dB, below the rule")])
def test_a_completed_job_below_the_rule_says_so(verdict: str, told: str) -> None:
    data = {"name": "yolo", "snr_db": 3.2, "verdict": verdict}
    assert message_text(EventKind.JOB_COMPLETED, data, "en").splitlines()[1:] == [f"Worst output: {told}"]


@pytest.mark.parametrize(
    "address", ["", "ada", "ada@", "@x.org", "a b@x.org", "ada@x.org\nBcc: b@x.org", "<ada@x.org>"]
)
def test_what_is_no_mail_address_is_refused(address: str) -> None:
    with pytest.raises(BadAddress):
        check_mail(address)


def test_a_mail_address_is_taken() -> None:
    assert check_mail(" ada@example.org ") == "ada@example.org"
