"""What the profile policy learns from the results of its plans, kept between calls as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from app.video.model.plan import Encoder, VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import DagInfo, Measured, NodeInfo, ResourceInfo
from app.video.scheduling.predictor import HOST, LATENCY_S, OWN_LATENCY_S, Prediction, node_of, nodes_key

RISE, FALL = 0.6, 0.3
"""Weights of what was seen last: what became slower is believed sooner."""
FORGET, FORGET_PACE = 0.985, 0.995
"""What a correction keeps each period in which it was not seen: a node that was slow may be quick again."""
MIN_S = 1e-4
MIN_MBPS = 0.05
ROWS_KEPT = 200
MAX_TAIL, MAX_WAIT, LEAST_PACE = 2.0, 30.0, 0.02
DROPPED, SLOWED = 0.1, 0.8
"""Shares of the frames that are dropped, and of the wanted rate, beyond which a plan does not keep up."""
FELL = 0.6
"""Below this share of what it was, a link has fallen."""


@dataclass(frozen=True)
class PlanOutcome:
    """A plan that was carried out. alone: stage → seconds of computing that were expected, base: by the profile only;
    is_late: it violated."""

    dag: DagInfo
    resources: ResourceInfo
    result: PlanResult
    expected: Prediction
    alone: Mapping[str, float]
    base: Mapping[str, float]
    is_late: bool


class Memory:
    """corrections: see predict. links: node → {mbps, picture: what the resource picture said then}. rows, seen: times,
    to which the corrections come, and qualities learned, in the form of profile rows and `stage|model|resolution`.
    tail: p95 through predicted delay."""

    def __init__(self, state: dict[str, Any]) -> None:
        kept = state.setdefault("learned", {})
        self.corrections: dict[str, float] = kept.setdefault("corrections", {})
        self.links: dict[str, dict[str, Any]] = kept.setdefault("links", {})
        self.rows: dict[str, float] = kept.setdefault("rows", {})
        self.seen: dict[str, float] = kept.setdefault("seen", {})
        self.figures: dict[str, float] = kept.setdefault("figures", {"tail": 1.1})

    def profile(self, measured: Sequence[Measured]) -> list[Measured]:
        """What was measured, and what was learned where nothing was."""
        rows = [self._graded(row) for row in measured]
        known = {(row["node"], row["stage"], row["model_id"], row["resolution"]) for row in rows}
        for key, delay_s in self.rows.items():
            node, stage, model, resolution = key.split("|")
            if (node, stage, int(model), resolution) not in known:
                learned = Measured(
                    node=node,
                    stage=stage,
                    model_id=int(model),
                    resolution=resolution,
                    delay_s=delay_s,
                    bytes=0.0,
                    quality=0.0,
                )
                rows.append(self._graded(learned))
        return rows

    def _graded(self, row: Measured) -> Measured:
        seen = self.seen.get(f"{row['stage']}|{row['model_id']}|{row['resolution']}")
        if seen is None:
            return row
        return cast("Measured", {**row, "quality": 0.5 * (row["quality"] + seen) if row["quality"] else seen})

    def picture(self, resources: ResourceInfo) -> ResourceInfo:
        """As reported, but with the bandwidths that were seen by sending, until something newer is reported."""
        found: ResourceInfo = {}
        for key, info in resources.items():
            link = self.links.get(info["node"])
            if link and info["up_mbps"] is not None and info["up_mbps"] != link["picture"]:
                self._weigh_link(link, info["up_mbps"])
                link["picture"] = info["up_mbps"]
            found[key] = cast("NodeInfo", {**info, "up_mbps": link["mbps"]}) if link else info
        return found

    @staticmethod
    def _weigh_link(link: dict[str, Any], mbps: float) -> None:
        share = RISE if mbps < link["mbps"] else FALL
        link["mbps"] += share * (mbps - link["mbps"])

    def forget(self) -> None:
        for key, value in self.corrections.items():
            if not key.startswith(("bytes@", "latency@")):
                share = FORGET_PACE if key.startswith("pace@") else FORGET
                self.corrections[key] = 1 + (value - 1) * share

    def learn(self, lesson: PlanOutcome) -> list[str]:
        """Names the nodes whose link has fallen."""
        fallen = self._learn_links(lesson)
        self._learn_stages(lesson)
        self._learn_quality(lesson.result, lesson.expected)
        return fallen

    def _learn_links(self, lesson: PlanOutcome) -> list[str]:
        result, expected, sent = lesson.result, lesson.expected, self._sent(lesson)
        encoder, size = expected.video_conf.encoder, result.get("bytes_up", 0.0)
        if sent and size > 0 and expected.bytes_up > 0:
            ratio = size / expected.bytes_up
            self._weigh(f"bytes@{encoder.value}", ratio * self.corrections.get(f"bytes@{encoder.value}", 1.0))
        fallen = []
        for node, mbps in sent.items():
            reported = next(info["up_mbps"] for info in lesson.resources.values() if info["node"] == node)
            link = self.links.setdefault(node, {"mbps": mbps, "picture": reported, "seen": False})
            before, was_seen = link["mbps"], link["seen"]
            if lesson.is_late and mbps < before:
                link["mbps"] = mbps
            else:
                self._weigh_link(link, mbps)
            link.update(seen=True, was=before)
            if was_seen and link["mbps"] < FELL * before:
                fallen.append(node)
        return fallen

    def _sent(self, lesson: PlanOutcome) -> dict[str, float]:
        """node → Mbit/s to it. Of a stage whose picture was there already the way is all latency; of the first, what is
        beyond that is the way of the bytes."""
        found: dict[str, float] = {}
        result = lesson.result
        for stage, place in lesson.expected.flow_mapping.items():
            info = node_of(place, lesson.resources)
            node, way = info["node"], self._way_s(stage, result)
            if info["role"] == HOST:
                continue
            if node in found or not lesson.dag["stages"][stage]["pictures"]:
                if way is not None:
                    self._weigh(f"latency@{node}", way, LATENCY_S)
                continue
            mbps, size = result.get("up_mbps", {}).get(node, 0.0), result.get("bytes_up", 0.0)
            if way is not None and size > 0:
                latency = min(self.corrections.get(f"latency@{node}", LATENCY_S), 0.8 * way)
                mbps = size * 8e-6 * max(1 / max(MIN_S, way - latency), result.get("fps", 0.0))
            if mbps > 0:
                found[node] = max(MIN_MBPS, mbps)
        return found

    @staticmethod
    def _way_s(stage: str, result: PlanResult) -> float | None:
        delay, server = result["delay"].get(stage), result.get("server", {}).get(stage)
        if delay is None or server is None:
            return None
        return max(MIN_S, delay - server - result.get("queue", {}).get(stage, 0.0))

    def _learn_stages(self, lesson: PlanOutcome) -> None:
        result, expected = lesson.result, lesson.expected
        for stage, place in expected.flow_mapping.items():
            info = node_of(place, lesson.resources)
            seconds = result.get("server", {}).get(stage)
            if seconds is None and info["role"] == HOST and stage in result["delay"]:
                seconds = result["delay"][stage] - OWN_LATENCY_S
            if seconds is None or lesson.alone[stage] <= MIN_S:
                continue
            ratio = seconds / lesson.alone[stage]
            left = ratio / self._learn_ratio(f"{stage}@{info['node']}", ratio, (0.05, 20.0), is_late=lesson.is_late)
            key = f"{info['node']}|{stage}|{place['model_id']}|{expected.video_conf.resolution}"
            if len(self.rows) < ROWS_KEPT or key in self.rows:
                known = lesson.base[stage]
                self.rows[key] = known * (1 + (FALL if key in self.rows else 1.0) * (left - 1))

    def _learn_ratio(self, key: str, ratio: float, limits: tuple[float, float], *, is_late: bool) -> float:
        """ratio: measured through predicted, the correction in the prediction already. Answers by how much the
        correction has changed."""
        now = self.corrections.get(key, 1.0)
        wanted = min(limits[1], max(limits[0], now * ratio))
        share = 1.0 if is_late and wanted > now else RISE if wanted > now else FALL
        self.corrections[key] = now + share * (wanted - now)
        return self.corrections[key] / now

    def _learn_quality(self, result: PlanResult, expected: Prediction) -> None:
        graded = {stage: float(iou) for stage, iou in result.get("iou", {}).items()}
        graded |= {stage: max(0.0, 1 - mae / 30) for stage, mae in result.get("mae", {}).items()}
        for stage, quality in graded.items():
            if stage in expected.flow_mapping:
                key = f"{stage}|{expected.flow_mapping[stage]['model_id']}|{expected.video_conf.resolution}"
                before = self.seen.get(key, quality)
                self.seen[key] = before + 0.1 * (quality - before)

    def learn_rate(self, result: PlanResult, expected: Prediction, capacity: float, *, is_severe: bool) -> bool:
        """Of a plan that does not keep up: what its nodes can do together, measured through predicted, where capacity
        is the latter, frames processed a second. Whether it is such a plan: then frames wait for their turn, and their
        delays say nothing of a plan that does keep up. Of others: that they can do at least what they have done."""
        frames, dropped, fps = result.get("frames", 0), result.get("dropped", 0), result.get("fps", 0.0)
        conf = expected.video_conf
        wanted = conf.fps / (1 + conf.nskip + conf.ntracking)
        is_short = (is_severe or dropped > DROPPED * (frames + dropped)) and 0 < fps < SLOWED * wanted
        if is_short or fps > capacity:
            key = f"pace@{nodes_key(expected.flow_mapping)}"
            self.corrections[key] = min(1.0, max(LEAST_PACE, self.corrections.get(key, 1.0) * fps / capacity))
        return is_short

    def learn_delay(self, result: PlanResult, again: Prediction, *, is_late: bool) -> float:
        """Of a plan that keeps up: what is not explained by its stages and ways. again: predicted with what has been
        learned of these. Answers the delay that is predicted with this, too."""
        p50 = result.get("e2e_p50")
        if p50 is None or again.delay_s <= 0:
            return again.delay_s
        key = f"wait@{nodes_key(again.flow_mapping)}"
        return again.delay_s * self._learn_ratio(key, p50 / again.delay_s, (1.0, MAX_WAIT), is_late=is_late)

    def learn_tail(self, result: PlanResult, delay_s: float) -> None:
        """delay_s: predicted with all that has been learned."""
        if (p95 := result.get("e2e_p95")) and delay_s > 0:
            wanted, now = min(MAX_TAIL, max(1.0, p95 / delay_s)), self.figures["tail"]
            self.figures["tail"] = now + (0.4 if wanted > now else 0.2) * (wanted - now)

    def _weigh(self, key: str, value: float, start: float = 1.0) -> None:
        now = self.corrections.get(key, start)
        self.corrections[key] = now + FALL * (value - now)


def conf_of(plan: Mapping[str, Any]) -> VideoConf:
    """Of a plan that was decided. Raises KeyError, TypeError, ValueError."""
    conf = plan["video_conf"]
    return VideoConf(
        str(conf["resolution"]),
        float(conf["fps"]),
        int(conf.get("nskip", 0)),
        int(conf.get("ntracking", 0)),
        Encoder(conf.get("encoder", "JPEG")),
    )
