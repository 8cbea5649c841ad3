"""What the decisions on a plan changed, as the page tells it."""

from __future__ import annotations

from app.video.pages import decision_views
from app.video.service import DecisionRecord
from tests.harness.video.records import plan


def test_a_decision_says_what_it_changed() -> None:
    first, second = plan(1).to_json(), plan(2).to_json()
    second["video_conf"]["resolution"] = "360p"
    second["flow_mapping"]["face_detection"] |= {"node": "cloud0", "node_ip": "1.2.3.4", "model_id": 1}

    def row(seq: int, made: dict[str, object] | None) -> DecisionRecord:
        return DecisionRecord("2026-01-01", seq, "profile", "period", "new", "", 1.0, "", made)

    late, newer, oldest = decision_views.decisions_of([row(3, None), row(2, second), row(1, first)])
    assert late.changes == () and oldest.is_first and not newer.is_first
    assert [(one.what, one.before, one.after) for one in newer.changes] == [
        ("resolution", "480p", "360p"),
        ("place", "edge0", "cloud0"),
        ("model", "0", "1"),
    ]


def test_that_all_stays_is_told_once_with_how_often() -> None:
    def row(seq: int, outcome: str, policy: str = "profile") -> DecisionRecord:
        return DecisionRecord(f"2026-01-0{seq}", seq, policy, "period", outcome, "", 1.0, "", plan(1).to_json())

    log = [row(5, "same", "fixed"), row(4, "same"), row(3, "same"), row(2, "same"), row(1, "new")]
    shown = decision_views.decisions_of(log)
    assert [(one.decided.seq, one.times) for one in shown] == [(5, 1), (4, 3), (1, 1)]
