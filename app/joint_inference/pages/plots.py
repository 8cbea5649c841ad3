"""The plots of a service over time: time to answer, and the share of pictures that goes up. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.joint_inference.model.tally import upload_share_key
from app.joint_inference.service import TallyPoint
from app.kit.web.line_plot import Plot, over_time, time_plot

LATENCIES = (("edge-50", "edgeMsP50"), ("edge-95", "edgeMsP95"), ("cloud-50", "cloudMsP50"), ("cloud-95", "cloudMsP95"))


def latency_plot(points: Sequence[TallyPoint]) -> Plot | None:
    """Milliseconds; None while there is nothing to draw a line of."""
    return time_plot({kind: over_time(points, lambda p, key=key: _value(p, key)) for kind, key in LATENCIES})  # type: ignore[misc]


def upload_plot(points: Sequence[TallyPoint]) -> Plot | None:
    """Percent: since the start, and of what was seen between two points."""
    since_start = over_time(points, lambda p: _value(p, upload_share_key(p.task_info)))
    between = []
    for (minutes, _), earlier, later in zip(since_start[1:], points, points[1:], strict=False):
        between.append((minutes, _share(earlier, later)))
    return time_plot({"upload-now": between, "upload-all": since_start}, top=1.0, times=100.0, ending="%")


def _value(point: TallyPoint, key: str) -> float | None:
    value = point.task_info.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _share(earlier: TallyPoint, later: TallyPoint) -> float | None:
    """None when nothing was seen between them, or the counts began anew."""
    seen, seen_later = _value(earlier, "inferenceNumber"), _value(later, "inferenceNumber")
    sent, sent_later = _uploaded(earlier), _uploaded(later)
    if seen is None or sent is None or seen_later is None or sent_later is None:
        return None
    if seen_later <= seen or sent_later < sent:
        return None
    return min(1.0, (sent_later - sent) / (seen_later - seen))


def _uploaded(point: TallyPoint) -> float | None:
    uploads = _value(point, "uploadNumber")
    return _value(point, "hardExampleNumber") if uploads is None else uploads
