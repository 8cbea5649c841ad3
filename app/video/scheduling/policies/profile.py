"""The default: the best quality that is predicted to be in time, from measured stages and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.video.errors import BadPlan
from app.video.model.plan import VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import Answer, ConstraintInfo, DagInfo, GeneratorInfo, Measured, ResourceInfo
from app.video.scheduling.cooldown import Cooldown
from app.video.scheduling.plan_memory import Memory, PlanOutcome, conf_of
from app.video.scheduling.predictor import HOST, Prediction, Predictor, node_of, placed
from app.video.scheduling.profile_model import ProfileModel
from app.video.scheduling.search import Choice, SearchGoal, choices, judged, wanted_fps

PERIODS = 2
"""So often another plan must have been the better one."""
STAY_S = 10.0
"""A plan that does well is kept at least so long."""
BETTER = 0.008
"""In quality: less is not worth a change."""
FASTER = 1.1
FEWER_BYTES = 0.6
QUICKER = 0.8
"""Of plans that all take too long, another must take less than this share of the last one's delay."""
SOON_S = 15.0
"""A plan that is late within so many seconds should not have been chosen."""
SETTLE_S = 2.5
SEVERE = 0.3
"""Share of frames that are late: the plan is changed at once."""


def profile(
    *,
    job_uid: str,  # noqa: ARG001
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,
    user_constraint: ConstraintInfo,
    generator_output: GeneratorInfo | None = None,
    state: dict[str, Any] | None = None,
) -> Answer:
    """Chooses the best quality whose predicted delay is allowed, corrects its profile by what is measured, and probes
    a link that fell with growing patience."""
    kept = state if state is not None else {}
    return _Turn(dag, resource_info, last_plan_res, user_constraint, generator_output, kept).answer()


_Last = tuple[VideoConf, Mapping[str, Mapping[str, object]]]


@dataclass(frozen=True)
class _Seen:
    """How the last plan did. is_news: since it was chosen. is_late: its p95 is over hi; is_severe: so are many."""

    is_news: bool = False
    is_late: bool = False
    is_severe: bool = False


class _Turn:
    """One call. turns: what is remembered of the last plan: since when it is in force, how often in a row it was late,
    and another better, and the number of the plan whose results are no news."""

    def __init__(
        self,
        dag: DagInfo,
        resources: ResourceInfo,
        result: PlanResult | None,
        constraint: ConstraintInfo,
        generator: GeneratorInfo | None,
        state: dict[str, Any],
    ) -> None:
        self.dag, self.result, self.generator, self.state = dag, result, generator, state
        self.now = float(state.get("now", 0.0))
        self.hi, self.floor = constraint["delay"][1], constraint["quality"]
        self.memory = Memory(state)
        self.patience = Cooldown(state, self.now)
        self.turns: dict[str, Any] = state.setdefault(
            "turns", {"since": self.now, "streak": 0, "late": 0, "changes": 0, "stale": None}
        )
        self.turns["since"] = min(self.turns["since"], self.now)
        self.reported = resources
        self.resources = self.memory.picture(resources)
        self.rows: Sequence[Measured] = state.get("profile") or ()

    def answer(self) -> Answer:
        last = self._last()
        seen = self._look(last) if last else _Seen()
        predictor = self._predictor(self.resources)
        wish = self._wish()
        current = judged(predictor.predict(*last), wish, margin=1.0) if last else None
        fell_back = self._bar_those_away(last)
        best = self._best(predictor, wish, barred=self.patience.nodes)
        urgent = self._urgent(is_new_wish=self._is_new_wish(), can_stay=current is not None, fell_back=fell_back)
        if current is None or urgent:
            return self._take(best, current, urgent)
        if (seen.is_severe and not self._is_settling) or self.turns["late"] >= PERIODS:
            return self._after_late(current, best)
        return self._steady(current, best, seen)

    def _urgent(self, *, is_new_wish: bool, can_stay: bool, fell_back: bool) -> str:
        """Why the last plan is not to be asked about; empty where it is."""
        if not can_stay:
            return "a node of the last plan has gone" if self.state.get("last_plan") else "the first plan"
        if is_new_wish:
            return "another constraint"
        return "the host had to answer in place of the planned node" if fell_back else ""

    def _bar_those_away(self, last: _Last | None) -> bool:
        """Nodes whose work was done by the host instead."""
        if not last or not self.result or not self.result.get("fallbacks", 0):
            return False
        places = [node_of(place, self.resources) for place in last[1].values()]
        away = {info["node"] for info in places if info["role"] != HOST}
        for name in away - self.patience.nodes:
            self.patience.bar(f"node {name}")
        return bool(away)

    def _wish(self) -> SearchGoal:
        return SearchGoal(self.hi, self.floor, wanted_fps(self.generator), self.memory.figures["tail"])

    def _predictor(self, resources: ResourceInfo) -> Predictor:
        return Predictor(self.dag, resources, ProfileModel(self.memory.profile(self.rows)), self.memory.corrections)

    def _last(self) -> _Last | None:
        """The last plan, if it could go on: its nodes are there and online. Their roles are those of now."""
        plan = self.state.get("last_plan")
        if not plan:
            return None
        try:
            places = {stage: plan["flow_mapping"][stage] for stage in self.dag["stages"]}
            nodes = {stage: node_of(place, self.resources) for stage, place in places.items()}
            stays = all(node["online"] and stage in node["service"] for stage, node in nodes.items())
            mapping = {
                stage: placed(node, int(places[stage]["model_id"]), self.dag, stage) for stage, node in nodes.items()
            }
            return (conf_of(plan), mapping) if stays else None
        except (KeyError, TypeError, ValueError):
            return None

    def _look(self, last: _Last) -> _Seen:
        """Judge the results of the last plan, and learn from them."""
        result, turns = self.result, self.turns
        self.memory.forget()
        if not result or not result.get("delay"):
            return _Seen()
        seq = result.get("plan_seq")
        if seq is not None and turns["stale"] is not None and seq <= turns["stale"]:
            return _Seen()
        turns["stale"] = None
        turns["seq"] = seq
        seen = self._lateness(result)
        turns["late"] = turns["late"] + 1 if seen.is_late else 0
        turns["trouble"] = turns.get("trouble", 0) + 1 if seen.is_late else 0
        if result.get("fallbacks", 0) or (turns["late"] == 1 and self._is_settling):
            return seen
        self._learn(last, result, seen)
        return seen

    def _learn(self, last: _Last, result: PlanResult, seen: _Seen) -> None:
        predictor = self._predictor(self.resources)
        lesson = PlanOutcome(
            self.dag,
            self.reported,
            result,
            predictor.predict(*last),
            predictor.alone(*last),
            predictor.base(*last),
            seen.is_late,
        )
        for node in self.memory.learn(lesson):
            self.patience.fell(node, self.memory.links[node]["was"])
        self.resources = self.memory.picture(self.reported)
        predictor = self._predictor(self.resources)
        again, capacity = predictor.predict(*last), predictor.capacity(*last)
        if self._is_sudden or self.memory.learn_rate(result, again, capacity, is_severe=seen.is_severe):
            return
        self.memory.learn_tail(result, self.memory.learn_delay(result, again, is_late=seen.is_late))

    @property
    def _is_sudden(self) -> bool:
        """Late for the first time, with a plan that did well or is the first: what waits in queues then tells of the
        change, not of the plan."""
        is_old = self.now - float(self.turns["since"]) >= SOON_S or self.turns["changes"] <= 1
        return bool(self.turns["trouble"] == 1 and is_old)

    def _lateness(self, result: PlanResult) -> _Seen:
        p95, p50 = result.get("e2e_p95", 0.0), result.get("e2e_p50")
        frames, dropped = result.get("frames", 0), result.get("dropped", 0)
        is_late = p95 > self.hi or dropped > 0.2 * (frames + dropped)
        share = result.get("violations", frames) / frames if frames else 1.0
        is_severe = is_late and (share >= SEVERE or p50 is None or p50 > 0.8 * self.hi or dropped > frames)
        return _Seen(True, is_late, is_severe)

    @property
    def _is_settling(self) -> bool:
        """What the plan before left in the queues may still be seen."""
        return self.now - float(self.turns["since"]) < SETTLE_S and self.turns["changes"] > 1

    def _is_new_wish(self) -> bool:
        wish = [self.hi, self.floor]
        is_new = bool(self.turns.get("wish", wish) != wish)
        self.turns["wish"] = wish
        return is_new

    def _best(self, predictor: Predictor, wish: SearchGoal, *, barred: frozenset[str] = frozenset()) -> Choice:
        found = list(choices(predictor, self.dag, self.resources, wish, self.generator, barred))
        if not found:
            raise BadPlan("No node that is online serves the stages.", hint="Look at the nodes' page.")
        return max([one for one in found if not self.patience.is_barred(one.key)] or found, key=lambda one: one.rank)

    def _after_late(self, current: Choice, best: Choice) -> Answer:
        """At once, to what is predicted to be in time; where nothing is, only to what is much quicker."""
        if self.now - self.turns["since"] < SOON_S:
            self.patience.bar(current.key)
        if best.key == current.key:
            return self._keep(current, "it is late, but nothing better is known")
        delay, other = current.prediction.delay_s, best.prediction.delay_s
        if not best.fits and other > QUICKER * delay and best.prediction.fps < FASTER * current.prediction.fps:
            return self._keep(current, "it is late, but nothing would be much quicker")
        return self._take(best, current, self._why_late())

    def _why_late(self) -> str:
        p95 = self.result.get("e2e_p95", 0.0) if self.result else 0.0
        fallen = [
            f", the link to {node} gives {self.memory.links[node]['mbps']:.1f} Mbit/s after {one['was']:.1f}"
            for node, one in self.patience.fallen.items()
            if node in self.memory.links
        ]
        return f"p95 was {p95:.2f} s" + "".join(fallen)

    def _steady(self, current: Choice, best: Choice, seen: _Seen) -> Answer:
        self.patience.forgive(self.memory.links)
        is_better = best.key != current.key and self._is_clearly_better(best, current)
        self.turns["streak"] = self.turns["streak"] + 1 if is_better else 0
        rested = self.now - self.turns["since"] >= STAY_S
        if self.turns["streak"] >= PERIODS and rested and not seen.is_late:
            return self._take(best, current, f"better for {self.turns['streak']} periods")
        if rested and seen.is_news and not seen.is_late and (probe := self._probe(current)):
            return probe
        return self._keep(current, "nothing is clearly better")

    def _is_clearly_better(self, best: Choice, current: Choice) -> bool:
        one, other = best.prediction, current.prediction
        if not current.fits or best.is_good != current.is_good:
            return best.fits or one.delay_s < QUICKER * other.delay_s
        if not best.fits or one.quality < other.quality - BETTER / 2:
            return False
        return (
            one.quality > other.quality + BETTER
            or one.fps > FASTER * other.fps
            or one.bytes_up + 1000 < FEWER_BYTES * other.bytes_up
        )

    def _probe(self, current: Choice) -> Answer | None:
        """Send as if a link that fell gave twice as much, which only sending can show."""
        for node, mbps in self.patience.due(self.memory.links).items():
            risen: ResourceInfo = {
                key: {**info, "up_mbps": mbps} if info["node"] == node else info for key, info in self.resources.items()
            }
            best = self._best(self._predictor(risen), self._wish())
            if best.fits and best.key != current.key and best.prediction.quality > current.prediction.quality + BETTER:
                return self._take(best, current, f"trying whether the link to {node} gives {mbps:.1f} Mbit/s")
        return None

    def _take(self, choice: Choice, current: Choice | None, why: str) -> Answer:
        if current and choice.key == current.key:
            return self._keep(current, why)
        self.turns.update(
            since=self.now, streak=0, late=0, stale=self.turns.get("seq"), changes=self.turns["changes"] + 1
        )
        self.state["reason"] = f"{self._told(choice.prediction)} ({why})."
        return _answer(choice.prediction)

    def _keep(self, current: Choice, why: str) -> Answer:
        self.state["reason"] = f"Stays with {self._told(current.prediction)} ({why})."
        return _answer(current.prediction)

    def _told(self, one: Prediction) -> str:
        conf = one.video_conf
        places = ", ".join(
            f"{stage} with model {place['model_id']} on {place.get('node') or place['node_ip']}"
            for stage, place in one.flow_mapping.items()
        )
        return (
            f"{conf.resolution} as {conf.encoder.value}, {conf.nskip} left out after each, {places}: predicted"
            f" {one.delay_s:.3f} s of {self.hi:.3f} s, {one.fps:.0f} frames/s, quality {one.quality:.2f},"
            f" {one.bytes_up / 1000:.1f} kB a frame"
        )


def _answer(one: Prediction) -> Answer:
    return one.video_conf.to_json(), {stage: dict(place) for stage, place in one.flow_mapping.items()}
