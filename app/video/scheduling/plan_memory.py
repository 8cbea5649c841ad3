"""What the profile policy learns from the results of its plans, stored between calls as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from app.kit.text.json_values import JsonObject
from app.video.model.plan import Encoder, VideoConf
from app.video.model.report import PlanResult, measure_taken_fps, taken_of
from app.video.scheduling.contract import DagInfo, Measured, NodeInfo, PolicyState, ResourceInfo
from app.video.scheduling.placement import HOST, node_of, nodes_key
from app.video.scheduling.predictor import LATENCY_S, OWN_LATENCY_S, Prediction

RISE, FALL = 0.6, 0.3
"""Weights of the newest observation: slower results are trusted sooner."""
FORGET, FORGET_PACE = 0.985, 0.995
"""The share of a correction that remains after each period: a slow node may become fast again."""
MIN_S = 1e-4
MIN_MBPS = 0.05
ROWS_KEPT = 200
MAX_TAIL, MAX_WAIT, LEAST_PACE = 2.0, 30.0, 0.02
DROPPED, SLOWED = 0.1, 0.8
"""A plan that drops more than the first share of its frames, or has less than the second of its rate, is too slow."""
FELL = 0.6
"""Below this share of its former bandwidth a link has slowed down."""


@dataclass(frozen=True)
class PlanOutcome:
    """The result of a plan."""

    dag: DagInfo
    resources: ResourceInfo
    """As reported."""
    result: PlanResult
    expected: Prediction
    alone: Mapping[str, float]
    """stage → predicted seconds of computation."""
    base: Mapping[str, float]
    """stage → seconds of computation by the profile alone."""
    is_late: bool
    """Whether it violated the constraint."""


class PlanMemory:
    """Everything learned so far.

    Args:
        state: The policy's state: `learned` in it is read and changed in place.
    """

    def __init__(self, state: PolicyState) -> None:
        learned = state.setdefault("learned", {})
        self.corrections: dict[str, float] = learned.setdefault("corrections", {})
        """See predict."""
        self.links: dict[str, JsonObject] = learned.setdefault("links", {})
        """node → {mbps: as seen by sending, picture: up_mbps of the resource picture then, was: mbps before, seen}."""
        self.rows: dict[str, float] = learned.setdefault("rows", {})
        """`node|stage|model_id|resolution` → seconds of computing, without corrections."""
        self.seen: dict[str, float] = learned.setdefault("seen", {})
        """`stage|model_id|resolution` → quality, 0..1."""
        self.figures: dict[str, float] = learned.setdefault("figures", {"tail": 1.1})
        """tail: p95 of the delay through the predicted one."""

    def profile(self, measured: Sequence[Measured]) -> list[Measured]:
        """The measured rows, and learned ones without a measurement."""
        rows = [self._read_grade(row) for row in measured]
        measured_keys = {(row["node"], row["stage"], row["model_id"], row["resolution"]) for row in rows}
        for key, delay_s in self.rows.items():
            node, stage, model, resolution = key.split("|")
            if (node, stage, int(model), resolution) not in measured_keys:
                learned = Measured(
                    node=node,
                    stage=stage,
                    model_id=int(model),
                    resolution=resolution,
                    delay_s=delay_s,
                    bytes=0.0,
                    quality=0.0,
                )
                rows.append(self._read_grade(learned))
        return rows

    def _read_grade(self, row: Measured) -> Measured:
        learned = self.seen.get(f"{row['stage']}|{row['model_id']}|{row['resolution']}")
        if learned is None:
            return row
        return cast("Measured", {**row, "quality": 0.5 * (row["quality"] + learned) if row["quality"] else learned})

    def picture(self, resources: ResourceInfo) -> ResourceInfo:
        """The resource picture with the bandwidths observed while sending, until a newer one is reported."""
        picture: ResourceInfo = {}
        for key, info in resources.items():
            link = self.links.get(info["node"])
            if link and info["up_mbps"] is not None and info["up_mbps"] != link["picture"]:
                self._weigh_link(link, info["up_mbps"])
                link["picture"] = info["up_mbps"]
            picture[key] = cast("NodeInfo", {**info, "up_mbps": link["mbps"]}) if link else info
        return picture

    @staticmethod
    def _weigh_link(link: JsonObject, mbps: float) -> None:
        share = RISE if mbps < link["mbps"] else FALL
        link["mbps"] += share * (mbps - link["mbps"])

    def forget(self) -> None:
        """Lets corrections fade by one period."""
        for key, value in self.corrections.items():
            if not key.startswith(("bytes@", "latency@")):
                share = FORGET_PACE if key.startswith("pace@") else FORGET
                self.corrections[key] = 1 + (value - 1) * share

    def learn(self, outcome: PlanOutcome) -> list[str]:
        """Learns bandwidths, times and qualities. Returns the nodes whose link has slowed down."""
        fallen = self._learn_links(outcome)
        self._learn_stages(outcome)
        self._learn_quality(outcome.result, outcome.expected)
        return fallen

    def _learn_links(self, outcome: PlanOutcome) -> list[str]:
        result, expected, sent = outcome.result, outcome.expected, self._measure_sent(outcome)
        encoder, size = expected.video_conf.encoder, result.get("bytes_up", 0.0)
        if sent and size > 0 and expected.bytes_up > 0:
            ratio = size / expected.bytes_up
            self._weigh(f"bytes@{encoder.value}", ratio * self.corrections.get(f"bytes@{encoder.value}", 1.0))
        fallen = []
        for node, mbps in sent.items():
            reported = next(info["up_mbps"] for info in outcome.resources.values() if info["node"] == node)
            link = self.links.setdefault(node, {"mbps": mbps, "picture": reported, "seen": False})
            before, was_seen = link["mbps"], link["seen"]
            if outcome.is_late and mbps < before:
                link["mbps"] = mbps
            else:
                self._weigh_link(link, mbps)
            link.update(seen=True, was=before)
            if was_seen and link["mbps"] < FELL * before:
                fallen.append(node)
        return fallen

    def _measure_sent(self, outcome: PlanOutcome) -> dict[str, float]:
        """node → Mbit/s to it. Transport to a stage that already has its picture is only latency; to the first stage,
        everything above the latency is the transport of the picture."""
        mbps_of: dict[str, float] = {}
        result = outcome.result
        for stage, place in outcome.expected.flow_mapping.items():
            info = node_of(place, outcome.resources)
            node, way = info["node"], self._measure_way_s(stage, result)
            if info["role"] == HOST:
                continue
            if node in mbps_of or not outcome.dag["stages"][stage]["pictures"]:
                if way is not None:
                    self._weigh(f"latency@{node}", way, LATENCY_S)
                continue
            mbps, size = result.get("up_mbps", {}).get(node, 0.0), result.get("bytes_up", 0.0)
            if way is not None and size > 0:
                latency = min(self.corrections.get(f"latency@{node}", LATENCY_S), 0.8 * way)
                mbps = size * 8e-6 * max(1 / max(MIN_S, way - latency), result.get("fps", 0.0))
            if mbps > 0:
                mbps_of[node] = max(MIN_MBPS, mbps)
        return mbps_of

    @staticmethod
    def _measure_way_s(stage: str, result: PlanResult) -> float | None:
        delay, server = result["delay"].get(stage), result.get("server", {}).get(stage)
        if delay is None or server is None:
            return None
        return max(MIN_S, delay - server - result.get("queue", {}).get(stage, 0.0))

    def _learn_stages(self, outcome: PlanOutcome) -> None:
        result, expected = outcome.result, outcome.expected
        for stage, place in expected.flow_mapping.items():
            info = node_of(place, outcome.resources)
            seconds = result.get("server", {}).get(stage)
            if seconds is None and info["role"] == HOST and stage in result["delay"]:
                seconds = result["delay"][stage] - OWN_LATENCY_S
            if seconds is None or outcome.alone[stage] <= MIN_S:
                continue
            ratio = seconds / outcome.alone[stage]
            unexplained = ratio / self._learn_ratio(
                f"{stage}@{info['node']}", ratio, (0.05, 20.0), is_late=outcome.is_late
            )
            key = f"{info['node']}|{stage}|{place['model_id']}|{expected.video_conf.resolution}"
            if len(self.rows) < ROWS_KEPT or key in self.rows:
                base_s = outcome.base[stage]
                self.rows[key] = base_s * (1 + (FALL if key in self.rows else 1.0) * (unexplained - 1))

    def _learn_ratio(self, key: str, ratio: float, limits: tuple[float, float], *, is_late: bool) -> float:
        """Moves a correction towards what was measured; returns by what factor it changed.

        Args:
            ratio: Measured through predicted with the present correction.
            limits: The least and the greatest correction.
        """
        before = self.corrections.get(key, 1.0)
        target = min(limits[1], max(limits[0], before * ratio))
        share = 1.0 if is_late and target > before else RISE if target > before else FALL
        self.corrections[key] = before + share * (target - before)
        return self.corrections[key] / before

    def _learn_quality(self, result: PlanResult, expected: Prediction) -> None:
        graded = {stage: float(iou) for stage, iou in result.get("iou", {}).items()}
        graded |= {stage: max(0.0, 1 - mae / 30) for stage, mae in result.get("mae", {}).items()}
        for stage, quality in graded.items():
            if stage in expected.flow_mapping:
                key = f"{stage}|{expected.flow_mapping[stage]['model_id']}|{expected.video_conf.resolution}"
                before = self.seen.get(key, quality)
                self.seen[key] = before + 0.1 * (quality - before)

    def learn_rate(self, result: PlanResult, expected: Prediction, capacity: float, *, is_severe: bool) -> bool:
        """Learns the joint capacity of a plan's nodes: exactly from a plan that does not keep up, and a lower bound
        from one that does.

        Args:
            capacity: The predicted maximum of processed frames per second.
            is_severe: Many frames were late.

        Returns:
            Whether the plan does not keep up. Its frames then queue, and their delays carry no information.
        """
        dropped, fps = result.get("dropped", 0), result.get("fps", 0.0)
        planned_fps = expected.video_conf.processed_fps
        drops_many = dropped > DROPPED * (taken_of(result) + dropped)
        is_short = (is_severe or drops_many) and 0 < measure_taken_fps(result) < SLOWED * planned_fps
        if is_short or fps > capacity:
            key = f"pace@{nodes_key(expected.flow_mapping)}"
            self.corrections[key] = min(1.0, max(LEAST_PACE, self.corrections.get(key, 1.0) * fps / capacity))
        return is_short or (drops_many and capacity < planned_fps)

    def learn_delay(self, result: PlanResult, again: Prediction, *, is_late: bool) -> float:
        """Learns the part of the delay that stages and transport do not explain, from a plan that keeps up.

        Args:
            again: The prediction with all that has been learned of stages and transport.

        Returns:
            The predicted delay with this part, seconds.
        """
        p50 = result.get("e2e_p50")
        if p50 is None or again.delay_s <= 0:
            return again.delay_s
        key = f"wait@{nodes_key(again.flow_mapping)}"
        return again.delay_s * self._learn_ratio(key, p50 / again.delay_s, (1.0, MAX_WAIT), is_late=is_late)

    def learn_tail(self, result: PlanResult, delay_s: float) -> None:
        """Learns p95 through the predicted delay.

        Args:
            delay_s: predicted with all that has been learned.
        """
        if (p95 := result.get("e2e_p95")) and delay_s > 0:
            target, before = min(MAX_TAIL, max(1.0, p95 / delay_s)), self.figures["tail"]
            self.figures["tail"] = before + (0.4 if target > before else 0.2) * (target - before)

    def _weigh(self, key: str, value: float, start: float = 1.0) -> None:
        before = self.corrections.get(key, start)
        self.corrections[key] = before + FALL * (value - before)


def conf_of(plan: Mapping[str, Any]) -> VideoConf:
    """Returns the video_conf of a plan as Plan.to_json has it."""
    conf = plan["video_conf"]
    return VideoConf(
        str(conf["resolution"]),
        float(conf["fps"]),
        int(conf.get("nskip", 0)),
        int(conf.get("ntracking", 0)),
        Encoder(conf.get("encoder", "JPEG")),
    )
