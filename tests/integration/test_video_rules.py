"""Rules of a job: saved by page, API and command, judged as rows arrive, their events kept, shown and handed on."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.kit.clock import to_text
from app.notifications.model import Kind
from app.notifications.service import NewTarget
from app.results.errors import EventPictureNotFound, RuleEventNotFound
from app.results.model.rule import RULE_SET, Rule, RuleSet, Zone
from app.results.store import RuleEventFilter
from app.video.errors import VideoJobNotFound
from app.video.model.job import VideoJob
from tests.harness.users import OURS, Within
from tests.harness.video.environments import container, env, web
from tests.harness.video.nodes import USER, Env
from tests.harness.video.records import result

__all__ = ["container", "env", "web"]
DOOR = Zone("door", ((0.5, 0.0), (1.0, 0.0), (1.0, 1.0), (0.5, 1.0)))
COME = Rule("come", zone="door", label="person", cooldown_s=0)
DOCUMENT = RULE_SET.write(RuleSet((DOOR,), (COME,)))
JPEG = b"\xff\xd8\xff %d \xff\xd9"
ALL = RuleEventFilter()


@pytest.fixture
def job(env: Env) -> VideoJob:
    """With a rule: a person in the right half."""
    made = env.running()
    env.rules.put(env.producer(made.uid), RuleSet((DOOR,), (COME,)))
    return made


def row(env: Env, n: int, middle: float, label: str = "person") -> dict[str, Any]:
    """A row of now, with an object whose middle is so many pixels from the left."""
    box = [middle - 50, 100, middle + 50, 300]
    facts = {"bbox": [box], "labels": [label], "scores": [0.9], "size": [1000, 500]}
    return {**result(n), "at": env.now.timestamp(), **facts}


def take(env: Env, uid: str, *rows: dict[str, Any]) -> None:
    """A report; each is a minute after the one before."""
    report: Any = {"job_uid": uid, "seq": rows[-1]["n_loop"], "results": list(rows)}
    env.reports.take(report, node="edge0", user="", now=env.now)
    env.later(60)


def come_and_go(env: Env, uid: str, times: int) -> None:
    """So many events of COME."""
    for time in range(times):
        take(env, uid, row(env, 2 * time + 1, 700))
        take(env, uid, row(env, 2 * time + 2, 200))


def test_an_event_is_kept_with_what_was_seen_also_over_reports(env: Env, job: VideoJob) -> None:
    seen_at = env.now
    come_and_go(env, job.uid, 2)
    first, second = reversed(env.rules.events(env.producer(job.uid), ALL, limit=10).events)
    assert (first.rule, first.zone, first.n_loop, first.at) == ("come", "door", 1, to_text(seen_at))
    assert first.objects == [{"label": "person", "score": 0.9, "bbox": [650, 100, 750, 300], "track": 1}]
    assert second.n_loop == 3
    assert second.event_id > first.event_id


def test_objects_that_cross_a_line_in_the_same_frame_are_each_counted(web: Within, env: Env) -> None:
    made = env.running()
    line, place = Zone("line", ((0.5, 0.0), (0.5, 1.0))), f"/api/v2/video/jobs/{made.uid}"
    rules = (Rule("cross", zone="line", cooldown_s=0), Rule("none", zone="line", label="bus", cooldown_s=0))
    env.rules.put(env.producer(made.uid), RuleSet((line, DOOR), (*rules, COME)))

    def frame(n: int, *middles: int) -> dict[str, Any]:
        boxes = [[middle - 50, 160 * i, middle + 50, 160 * i + 150] for i, middle in enumerate(middles)]
        labels = ['a "direction": "left"' if i else "person" for i in range(3)]
        facts = {"bbox": boxes, "labels": labels, "scores": [0.9] * 3}
        return {**row(env, n, 0), "at": env.now.timestamp() + n / 5, **facts}

    take(env, made.uid, frame(1, 480, 480, 520), frame(2, 520, 520, 480), frame(3, 480, 520, 480))
    answer = web.get(f"{place}/rule-events").json()
    assert answer["counts"]["cross"] == 2
    assert answer["crossings"] == {"cross": {"left": 2, "right": 2}}
    assert web.get(f"{place}/rule-events", params={"rule": "come"}).json()["crossings"] == {}
    env.rules.put(env.producer(made.uid), RuleSet((line, DOOR), (replace(rules[0], cooldown_s=3600), *rules[1:], COME)))
    take(
        env,
        made.uid,
        frame(4, 480, 520, 480),
        frame(5, 480, 480, 480),
        frame(6, 520, 480, 480),
        frame(7, 480, 480, 480),
    )
    answer = web.get(f"{place}/rule-events").json()
    assert answer["counts"]["cross"] == 3, "another event waits for the cool-down"
    assert answer["crossings"] == {"cross": {"left": 3, "right": 4}}, "and what has crossed is counted"
    page = web.get(f"/ui/video/{made.uid}/rules").text
    assert "to the left: 3" in " ".join(page.split()) and "to the right: 4" in page


def test_a_report_that_comes_twice_is_judged_once(env: Env, job: VideoJob) -> None:
    again: Any = {"job_uid": job.uid, "seq": 1, "results": [row(env, 1, 700)]}
    for _ in range(2):
        env.reports.take(again, node="edge0", user="", now=env.now)
    assert len(env.rules.events(env.producer(job.uid), ALL, limit=10).events) == 1


def test_its_user_is_told_by_their_targets(env: Env, container: Container, job: VideoJob) -> None:
    container.notifications.targets.add(USER, NewTarget(Kind.WEBHOOK, "https://example.org/hook"))
    come_and_go(env, job.uid, 2)
    messages = container.notifications.outbox.newest(USER)
    assert [each.event_kind for each in messages] == ["video.event"] * 2
    data = json.loads(messages[-1].body)["data"]
    assert (data["rule"], data["reason"], data["n_loop"]) == ("come", "person in door", 1)
    assert data["url"].endswith(f"/ui/video/{job.uid}/rules")


def test_the_next_picture_is_kept_of_it_and_later_ones_are_not(env: Env, job: VideoJob) -> None:
    rules, pictures = env.rules, env.video.pictures
    report: Any = {"job_uid": job.uid, "seq": 1, "results": [row(env, 1, 700)]}
    env.reports.take(report, node="edge0", user="", now=env.now)
    (event,) = rules.events(env.producer(job.uid), ALL, limit=1).events
    with pytest.raises(EventPictureNotFound):
        rules.picture(env.producer(job.uid), event.event_id)
    for number in (1, 2):
        pictures.put_snapshot("edge0", job.uid, JPEG % number, now=env.later(3))
    assert rules.picture(env.producer(job.uid), event.event_id) == JPEG % 1
    (event,) = rules.events(env.producer(job.uid), ALL, limit=1).events
    assert event.picture_at == to_text(env.now - timedelta(seconds=3))
    for unknown in (event.event_id + 1, 10**30):
        with pytest.raises(RuleEventNotFound):
            rules.picture(env.producer(job.uid), unknown)


def test_what_was_reported_late_gets_no_picture_of_now(env: Env, job: VideoJob) -> None:
    old = row(env, 1, 700)
    env.later(3600)
    report: Any = {"job_uid": job.uid, "seq": 1, "results": [old]}
    env.reports.take(report, node="edge0", user="", now=env.now)
    env.video.pictures.put_snapshot("edge0", job.uid, JPEG % 1, now=env.later(1))
    (event,) = env.rules.events(env.producer(job.uid), ALL, limit=1).events
    assert event.picture_at is None


def test_old_events_go_with_their_pictures_and_all_go_with_their_job(
    env: Env, container: Container, job: VideoJob
) -> None:
    rules = env.rules
    report: Any = {"job_uid": job.uid, "seq": 1, "results": [row(env, 1, 700)]}
    env.reports.take(report, node="edge0", user="", now=env.now)
    env.video.pictures.put_snapshot("edge0", job.uid, JPEG % 1, now=env.later(1))
    assert rules.forget_old(env.now) == 0
    assert rules.forget_old(env.now + timedelta(days=400)) == 1
    assert [one.key for one in container.objects.list("video/")] == [f"video/{job.uid}/snapshot.jpg"]
    come_and_go(env, job.uid, 2)
    env.jobs.cancel(USER, job.uid, now=env.now)
    env.jobs.delete(USER, job.uid)
    with pytest.raises(VideoJobNotFound):
        rules.get(env.producer(job.uid))
    with container.database.read() as conn:
        for table in ("result_rules", "result_rule_states", "result_events"):
            assert conn.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0


@pytest.mark.parametrize("year", [1970, 2099])
def test_what_is_of_a_wrong_clock_is_kept_as_long_as_the_rest_and_shown_with_when_it_was_stored(
    web: Within, env: Env, container: Container, year: int
) -> None:
    made, wrong = env.running(), datetime(year, 1, 2, tzinfo=UTC).timestamp()
    line = Zone("line", ((0.5, 0.0), (0.5, 1.0)))
    env.rules.put(env.producer(made.uid), RuleSet((line,), (Rule("cross", zone="line", cooldown_s=0),)))
    place, stored = f"/api/v2/video/jobs/{made.uid}", env.now
    take(env, made.uid, *({**row(env, n, 440 + 40 * n), "at": wrong + n} for n in (1, 2)))
    take(env, made.uid, row(env, 3, 560))
    for at, rows, events in ((env.now, 3, 1), (stored + timedelta(days=30, seconds=30), 1, 0)):
        container.results.rows.forget_old(at)
        env.rules.forget_old(at)
        answered, told = (web.get(f"{place}/{what}").json() for what in ("rows", "rule-events"))
        assert (len(answered["rows"]), len(told["events"])) == (rows, events)
        assert told["crossings"] == ({"cross": {"left": 1, "right": 0}} if events else {})
        lines = csv.DictReader(web.get(f"{place}/rows.csv").text.splitlines())
        assert [(one["at"], one["stored_at"]) for one in lines] == [
            (one["at"], one["stored_at"]) for one in answered["rows"]
        ]
        for one in [*answered["rows"], *told["events"]][: rows - 1]:
            assert (one["at"][:10], one["stored_at"]) == (f"{year}-01-02", to_text(stored))
        for page in ("results", "rules", ""):
            text = " ".join(web.get(f"/ui/video/{made.uid}/{page}".rstrip("/")).text.split())
            shown = (rows - 1) if page == "results" else events
            assert text.count(f"stored {stored:%Y-%m-%d %H:%M}") == shown, page


def test_a_job_that_has_too_many_keeps_the_newest(env: Env, job: VideoJob) -> None:
    come_and_go(env, job.uid, 4)
    env.rules.most_per_producer = 2
    assert env.rules.forget_old(env.now) == 2
    assert [one.n_loop for one in env.rules.events(env.producer(job.uid), ALL, limit=9).events] == [7, 5]
    env.rules.most_per_producer = 1_000_000


def test_programs_save_rules_and_follow_events(web: Within, env: Env) -> None:
    made = env.running()
    place = f"/api/v2/video/jobs/{made.uid}"
    assert web.get(f"{place}/rules").json() == {"zones": [], "rules": [], "problem": ""}
    assert web.request("PUT", f"{place}/rules", json=DOCUMENT).json() == {**DOCUMENT, "problem": ""}
    assert web.get(f"{place}/rules").json()["rules"][0]["label"] == "person"
    come_and_go(env, made.uid, 3)
    newest = web.get(f"{place}/rule-events", params={"limit": 2}).json()
    assert [one["n_loop"] for one in newest["events"]] == [5, 3]
    assert newest["counts"] == {"come": 3}
    rest = web.get(f"{place}/rule-events", params={"limit": 2, "cursor": newest["next_cursor"]}).json()
    assert [one["n_loop"] for one in rest["events"]] == [1]
    assert rest["next_cursor"] is None
    after = {"order": "asc", "cursor": rest["events"][0]["event_id"], "rule": "come"}
    assert [one["n_loop"] for one in web.get(f"{place}/rule-events", params=after).json()["events"]] == [3, 5]
    assert web.get(f"{place}/rule-events", params={"rule": "go"}).json()["events"] == []
    assert newest["events"][0]["text"] == "person in door"
    assert newest["events"][0]["links"] == {}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"zones": []}, 400),  # the rule names it
        ({"rules": [{"name": "a", "min_score": 2}]}, 422),
        ({"zones": [{"name": "a", "points": [[0, 0]]}]}, 422),
        ({"zones": [{"name": "a", "points": [[0, 0], [1, 2]]}]}, 422),
        ({"rules": [{"name": "a b"}]}, 422),
        ({"colours": []}, 422),
    ],
)
def test_rules_that_cannot_be_change_nothing(web: Within, job: VideoJob, change: dict[str, Any], status: int) -> None:
    place = f"/api/v2/video/jobs/{job.uid}/rules"
    answer = web.request("PUT", place, json={**DOCUMENT, **change})
    assert answer.status_code == status
    assert answer.json()["error"]["hint"]
    assert web.get(place).json() == {**DOCUMENT, "problem": ""}


def test_a_job_that_has_ended_keeps_its_rules(web: Within, env: Env, job: VideoJob) -> None:
    env.jobs.cancel(USER, job.uid, now=env.now)
    place = f"/api/v2/video/jobs/{job.uid}/rules"
    assert web.request("PUT", place, json=DOCUMENT).status_code == 409
    assert web.get(place).json()["rules"]
    assert 'name="points"' not in web.get(f"/ui/video/{job.uid}/rules").text


def test_zones_and_rules_are_made_changed_and_removed_by_the_page(web: Within, env: Env) -> None:
    made = env.running()
    page = f"/ui/video/{made.uid}/rules"

    def send(path: str, **fields: str) -> str:
        answer = web.post(path, data=fields, headers=OURS, follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return answer.text

    send(f"/ui/video/{made.uid}/zones", zone_name="gate", points="0.5,0.1 0.5,0.9")
    text = send(page, name="over", zone="gate", direction="left", cooldown_s="5")
    assert re.search(r"crosses gate,\s+to the left", text)
    assert [rule.cooldown_s for rule in env.rules.get(env.producer(made.uid)).rule_set.rules] == [5.0]
    assert 'value="over"' in web.get(page, params={"edit": "over"}).text
    refused = web.post(f"/ui/video/{made.uid}/zones/remove", data={"name": "gate"}, headers=OURS)
    assert refused.status_code == 400
    assert "gate is used by over. Remove or change these rules first." in refused.text
    headers = {**OURS, "accept-language": "zh-TW"}
    chinese = web.post(f"/ui/video/{made.uid}/zones/remove", data={"name": "gate"}, headers=headers)
    assert "請先移除或修改這些規則。" in chinese.text and "規則與區域不相符。" in chinese.text
    send(f"{page}/remove", name="over")
    send(f"/ui/video/{made.uid}/zones/remove", name="gate")
    assert env.rules.get(env.producer(made.uid)).rule_set == RuleSet()


@pytest.mark.parametrize(
    ("path", "fields", "field"),
    [
        ("zones", {"zone_name": "a", "points": "0.1,0.2 x"}, "points"),
        ("zones", {"zone_name": "a", "points": "0.1,0.2 7,0.2"}, "points"),
        ("zones", {"zone_name": "a b", "points": "0.1,0.2 0.3,0.2"}, "zone_name"),
        ("rules", {"name": "a", "min_score": "two"}, "min_score"),
        ("rules", {"name": "", "label": "cat"}, "name"),
    ],
)
def test_the_page_says_what_is_wrong_and_loses_nothing(
    web: Within, job: VideoJob, path: str, fields: dict[str, str], field: str
) -> None:
    answer = web.post(f"/ui/video/{job.uid}/{path}", data=fields, headers=OURS)
    assert answer.status_code == 422
    assert f'id="problem-{field}"' in answer.text
    assert all(value in answer.text for value in fields.values())


def test_the_pages_show_events_with_their_pictures(web: Within, env: Env, job: VideoJob) -> None:
    report: Any = {"job_uid": job.uid, "seq": 1, "results": [row(env, 1, 700)]}
    env.reports.take(report, node="edge0", user="", now=env.now)
    before = web.get(f"/ui/video/{job.uid}").text
    env.video.pictures.put_snapshot("edge0", job.uid, JPEG % 1, now=env.later(1))
    (event,) = env.rules.events(env.producer(job.uid), ALL, limit=1).events
    place = f"/ui/video/{job.uid}/rule-events/{event.event_id}/picture"
    page = web.get(f"/ui/video/{job.uid}/rules").text
    assert "person 0.90" in page
    assert place in page
    assert "person 0.90" in before
    assert place not in before
    assert place in web.get(f"/ui/video/{job.uid}").text, "the page of the job follows"
    picture = web.get(place)
    assert picture.content == JPEG % 1
    assert "sandbox" in picture.headers["content-security-policy"]
    assert "None yet." in web.get(f"/ui/video/{job.uid}/rules", params={"rule": "go"}).text


def test_the_page_says_why_no_rule_can_hold(web: Within, env: Env, job: VideoJob) -> None:
    take(env, job.uid, result(1))
    assert "answers have no boxes" in web.get(f"/ui/video/{job.uid}/rules").text
    take(env, job.uid, row(env, 2, 700))
    assert "answers have no boxes" not in web.get(f"/ui/video/{job.uid}/rules").text
