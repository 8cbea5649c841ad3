"""The default: the best quality that is predicted to be in time, from measured stages and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from app.video.errors import BadPlan
from app.video.model.plan import VideoConf
from app.video.model.report import PlanResult, measure_taken_fps
from app.video.scheduling.backoffs import Backoffs
from app.video.scheduling.contract import (
    Answer,
    ConstraintInfo,
    DagInfo,
    GeneratorInfo,
    Measured,
    PolicyState,
    ResourceInfo,
)
from app.video.scheduling.lateness import Lateness, lateness_of, takes_computing
from app.video.scheduling.placement import HOST, node_of, place_on
from app.video.scheduling.plan_history import PERIODS, PlanHistory
from app.video.scheduling.plan_memory import PlanMemory, PlanOutcome, conf_of
from app.video.scheduling.predictor import Prediction, Predictor, others_of
from app.video.scheduling.profile_model import ProfileModel
from app.video.scheduling.search import (
    SENDING_GAIN,
    PlanCandidate,
    SearchGoal,
    assess,
    best_of,
    candidates,
    compute_demanded_fps,
    is_away,
    places_key,
)

PATIENCE = 2 * PERIODS
"""In so many periods in a row a plan that sends nothing must have been late where only few of its frames were."""
BETTER = 0.008
"""Of quality, 0..1: a smaller gain is not worth a change."""
FASTER = 1.1
"""A plan with this many times the frames a second is a better one."""
FEWER_BYTES = 0.6
"""A plan that sends less than this share of the bytes is a better one."""
QUICKER = 0.8
"""Of plans that all take too long, another must take less than this share of the last one's delay."""
OFTEN_LATE_S = 0.9
"""Seconds of the last minute's video that were late at several moments: other nodes are tried that are as good."""
ELSEWHERE_S = 60.0
"""Nodes that were late at several moments are avoided at least so long."""
RETURN_GAIN = SENDING_GAIN / 2
"""Of quality, 0..1: a plan that sends is kept while it is better by more than this than one that sends nothing."""


def profile(
    *,
    job_uid: str,
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,
    user_constraint: ConstraintInfo,
    generator_output: GeneratorInfo | None = None,
    state: PolicyState | None = None,
) -> Answer:
    """Chooses the best quality whose predicted delay is allowed, corrects its profile by what is measured, and probes a
    link that fell at growing intervals.

    Where the host alone is predicted to keep up and to be in time, frames are sent only for a gain of more than
    SENDING_GAIN, and over a link that was never measured not in the first plan.

    Arguments as of `contract.Policy`.
    """
    memory = state if state is not None else {}
    return _Call(dag, resource_info, last_plan_res, user_constraint, generator_output, memory).answer()


_PlanInForce = tuple[VideoConf, Mapping[str, Mapping[str, object]]]


class _Call:
    """One call of the policy."""

    def __init__(
        self,
        dag: DagInfo,
        resources: ResourceInfo,
        result: PlanResult | None,
        constraint: ConstraintInfo,
        generator: GeneratorInfo | None,
        state: PolicyState,
    ) -> None:
        self.dag, self.result, self.generator, self.state = dag, result, generator, state
        now = float(state.get("now", 0.0))
        self.hi, self.floor = constraint["delay"][1], constraint["quality"]
        self.memory = PlanMemory(state)
        self.backoffs = Backoffs(state, now)
        self.history = PlanHistory(state, now)
        self.reported = resources
        self.resources = self.memory.picture(resources)
        self.rows: Sequence[Measured] = state.get("profile") or ()
        self.has_fallen = False
        """A link has become slower since the last call."""

    def answer(self) -> Answer:
        last = self._find_last()
        lateness = self._look(last) if last else Lateness()
        self.predictor = self._make_predictor(self.resources)  # knows what the results have taught
        self.backoffs.forgive_overloads({info["node"]: others_of(info) for info in self.reported.values()})
        current = assess(self.predictor.predict(*last), self._make_goal(), margin=1.0) if last else None
        host_stood_in = self._bar_unreachable(last)
        is_new_goal = self.history.note_goal(self.hi, self.floor)
        urgent = self._explain_urgency(
            is_new_goal=is_new_goal, can_stay=current is not None, host_stood_in=host_stood_in
        )
        if current is None or urgent:
            return self._take(self._find_best() if last else self._plan_first(), current, urgent)
        if (why := self._explain_elsewhere(current, lateness)) and (answer := self._plan_elsewhere(current, why)):
            return answer
        is_explained = current.sends and not current.fits and (lateness.is_late or self.has_fallen)
        patience = PERIODS if current.sends or lateness.is_many else PATIENCE
        if is_explained or (lateness.is_severe and not self.history.is_settling) or self.history.late >= patience:
            return self._plan_after_late(current)
        return self._plan_steadily(current, lateness)

    def _explain_urgency(self, *, is_new_goal: bool, can_stay: bool, host_stood_in: bool) -> str:
        """Why the plan is changed whatever its results are; empty where they decide."""
        if not can_stay:
            return "a node of the last plan has gone" if self.state.get("last_plan") else "the first plan"
        if is_new_goal:
            return "another constraint"
        return "the host had to answer in place of the planned node" if host_stood_in else ""

    def _bar_unreachable(self, last: _PlanInForce | None) -> bool:
        """Bars the nodes whose work the host had to do. Returns whether there was one."""
        if not last or not self.result or not self.result.get("fallbacks", 0):
            return False
        places = [node_of(place, self.resources) for place in last[1].values()]
        away = {info["node"] for info in places if info["role"] != HOST}
        for name in away - self.backoffs.barred_nodes:
            self.backoffs.bar_node(name)
        return bool(away)

    def _make_goal(self) -> SearchGoal:
        return SearchGoal(self.hi, self.floor, compute_demanded_fps(self.generator), self.memory.figures["tail"])

    def _make_predictor(self, resources: ResourceInfo) -> Predictor:
        return Predictor(self.dag, resources, ProfileModel(self.memory.profile(self.rows)), self.memory.corrections)

    def _find_last(self) -> _PlanInForce | None:
        """The plan in force, if it can go on: its nodes are online and serve its stages. With their present roles."""
        plan = self.state.get("last_plan")
        if not plan:
            return None
        try:
            places = {stage: plan["flow_mapping"][stage] for stage in self.dag["stages"]}
            nodes = {stage: node_of(place, self.resources) for stage, place in places.items()}
            stays = all(node["online"] and stage in node["service"] for stage, node in nodes.items())
            mapping = {
                stage: place_on(node, int(places[stage]["model_id"]), self.dag, stage) for stage, node in nodes.items()
            }
            return (conf_of(plan), mapping) if stays else None
        except (KeyError, TypeError, ValueError):
            return None

    def _look(self, last: _PlanInForce) -> Lateness:
        """Judges the results of the plan in force, and learns from them."""
        result, history = self.result, self.history
        self.memory.forget()
        if not result or not result.get("delay"):
            return Lateness()
        if not history.sees(result.get("plan_seq")):
            return Lateness()
        lateness = lateness_of(result, self.hi, sends=is_away(last[1]), is_young=history.is_young)
        if lateness.frames and not history.is_settling:
            self.backoffs.note_late(lateness.frames / last[0].processed_fps)
        history.note_results(is_late=lateness.is_late)
        if result.get("fallbacks", 0) or (history.late == 1 and (history.is_settling or lateness.can_pass)):
            return lateness
        self._learn(last, result, lateness)
        return lateness

    def _learn(self, last: _PlanInForce, result: PlanResult, lateness: Lateness) -> None:
        predictor = self._make_predictor(self.resources)
        outcome = PlanOutcome(
            self.dag,
            self.reported,
            result,
            predictor.predict(*last),
            predictor.alone(*last),
            predictor.base(*last),
            lateness.is_late,
        )
        for node in self.memory.learn(outcome):
            self.backoffs.note_slow_link(node, self.memory.links[node]["was"])
            self.has_fallen = True
        self.resources = self.memory.picture(self.reported)
        predictor = self._make_predictor(self.resources)
        again, capacity = predictor.predict(*last), predictor.capacity(*last)
        if self.history.is_sudden or self.memory.learn_rate(result, again, capacity, is_severe=lateness.is_severe):
            return
        self.memory.learn_tail(result, self.memory.learn_delay(result, again, is_late=lateness.is_late))

    def _find_best(
        self, resources: ResourceInfo | None = None, *, barred: frozenset[str] | None = None
    ) -> PlanCandidate:
        """The best plan that is not barred.

        Args:
            resources: None: as they are.
            barred: names of nodes that must not be used; None: as barred by what was measured.
        """
        predictor, goal = self._make_predictor(resources) if resources else self.predictor, self._make_goal()
        nodes = self.backoffs.barred_nodes if barred is None else barred

        def is_too_much(candidate: PlanCandidate) -> bool:
            conf, mapping = candidate.conf, candidate.prediction.flow_mapping
            return self.backoffs.is_too_much(places_key(mapping), lambda: predictor.load(conf, mapping))

        search = partial(candidates, predictor, self.dag, predictor.resources, goal, self.generator, nodes)
        if plans := list(search(is_too_much)) or list(search()):
            return best_of(plans)
        raise BadPlan("No node that is online serves the stages.", hint="Look at the nodes' page.")

    def _plan_first(self) -> PlanCandidate:
        """The first plan, which sends nothing over a link that was never measured unless it must."""
        others = [info for info in self.resources.values() if info["role"] != HOST]
        unmeasured = {info["node"] for info in others if info["up_mbps"] is None}
        careful = self._find_best(barred=self.backoffs.barred_nodes | unmeasured)
        return careful if not unmeasured or (careful.fits and careful.is_good) else self._find_best()

    def _plan_after_late(self, current: PlanCandidate) -> Answer:
        """Changes at once to a plan that is predicted to be in time; where there is none, only to a much quicker
        one."""
        self._bar_overload(current)
        best = self._find_best()
        if best.key == current.key:
            return self._keep(current, "it is late, but nothing better is known")
        current_s, best_s = current.prediction.delay_s, best.prediction.delay_s
        if not best.fits and best_s > QUICKER * current_s and best.prediction.fps < FASTER * current.prediction.fps:
            return self._keep(current, "it is late, but nothing would be much quicker")
        return self._take(best, current, self._explain_late())

    def _bar_overload(self, current: PlanCandidate) -> None:
        """Bars the models of a late plan at its nodes, with the load that they managed, unless its frames are late
        because of their transport."""
        if self.result is None or (current.sends and (self.has_fallen or not takes_computing(self.result))):
            return
        conf, mapping = current.conf, current.prediction.flow_mapping
        managed = min(1.0, (measure_taken_fps(self.result) or conf.processed_fps) / conf.processed_fps)
        used = [node_of(place, self.resources) for place in mapping.values()]
        self.backoffs.overload(
            places_key(mapping),
            managed * self.predictor.load(conf, mapping),
            {info["node"]: others_of(info) for info in used},
        )

    def _explain_late(self) -> str:
        p95 = self.result.get("e2e_p95", 0.0) if self.result else 0.0
        fallen = [
            f", the link to {node} gives {self.memory.links[node]['mbps']:.1f} Mbit/s after {link['was']:.1f}"
            for node, link in self.backoffs.fallen.items()
            if node in self.memory.links
        ]
        return f"p95 was {p95:.2f} s" + "".join(fallen)

    def _plan_steadily(self, current: PlanCandidate, lateness: Lateness) -> Answer:
        self.backoffs.forgive_links(self.memory.links)
        best = self._find_best()
        if lateness.is_news and not lateness.is_late and not current.sends:
            current = replace(current, in_time=True, keeps_up=True)
        is_better = best.key != current.key and self._is_clearly_better(best, current)
        self.history.note_other(is_better=is_better)
        is_rested = self.history.is_rested
        if self.history.has_been_outdone and is_rested and not lateness.is_late:
            return self._take(best, current, f"better for {self.history.streak} periods")
        if is_rested and lateness.is_news and not lateness.is_late and (probe := self._probe(current)):
            return probe
        return self._keep(
            current, "it is late, but not for long yet" if lateness.is_late else "nothing is clearly better"
        )

    def _explain_elsewhere(self, current: PlanCandidate, lateness: Lateness) -> str:
        """Why other nodes should be used: nobody predicts what makes frames late then. Empty: they need not."""
        if self.backoffs.late_s > OFTEN_LATE_S:
            return f"frames were late at {len(self.backoffs.moments)} moments of a minute"
        is_ours = self.history.is_settling or current.sends
        if lateness.is_many and not is_ours and self.predictor.is_host_crowded:
            return "frames were late, and others use the node"
        return ""

    def _plan_elsewhere(self, current: PlanCandidate, why: str) -> Answer | None:
        """A plan without the nodes that were late, if one is about as good."""
        places = current.prediction.flow_mapping.values()
        late = {str(place["node"]) for place in places if (place["node_role"] != HOST) == current.sends}
        best = self._find_best(barred=self.backoffs.barred_nodes | late)
        is_as_good = best.is_good >= current.is_good and best.prediction.quality >= current.prediction.quality - BETTER
        if late & set(best.nodes.split("+")) or not best.fits or not is_as_good:
            return None
        for node in late:
            self.backoffs.bar_node(node, ELSEWHERE_S)
        return self._take(best, current, why)

    def _is_clearly_better(self, best: PlanCandidate, current: PlanCandidate) -> bool:
        better, present = best.prediction, current.prediction
        if not current.fits or best.is_good != current.is_good:
            return best.fits or better.delay_s < QUICKER * present.delay_s
        if not best.fits:
            return False
        if not best.sends and current.sends and self.predictor.is_host_crowded:
            return False
        if best.sends != current.sends:
            return better.quality > present.quality + (SENDING_GAIN if best.sends else -RETURN_GAIN)
        if best.worth < current.worth - BETTER / 2:
            return False
        return (
            best.worth > current.worth + BETTER
            or better.fps > FASTER * present.fps
            or better.bytes_up + 1000 < FEWER_BYTES * present.bytes_up
        )

    def _probe(self, current: PlanCandidate) -> Answer | None:
        """A plan as if a link that fell had recovered, which only sending can show; None where that changes nothing, or
        where the plan in force sends over it and so measures it anyway."""
        sent_to = current.nodes.split("+")
        due = {node: steps for node, steps in self.backoffs.due(self.memory.links).items() if node not in sent_to}
        for node, mbps in [(node, step) for node, steps in due.items() for step in steps]:
            risen: ResourceInfo = {
                key: {**info, "up_mbps": mbps} if info["node"] == node else info for key, info in self.resources.items()
            }
            best = self._find_best(risen, barred=frozenset())
            gain = best.prediction.quality - current.prediction.quality
            if best.fits and best.sends and best.key != current.key and gain > BETTER:
                return self._take(best, current, f"trying whether the link to {node} gives {mbps:.1f} Mbit/s")
        return None

    def _take(self, candidate: PlanCandidate, current: PlanCandidate | None, why: str) -> Answer:
        if current and candidate.key == current.key:
            return self._keep(current, why)
        self.history.begin()
        if current and current.nodes != candidate.nodes:
            self.backoffs.moments.clear()
        self.state["reason"] = f"{self._describe(candidate.prediction)} ({why})."
        return _make_answer(candidate.prediction)

    def _keep(self, current: PlanCandidate, why: str) -> Answer:
        self.state["reason"] = f"Stays with {self._describe(current.prediction)} ({why})."
        return _make_answer(current.prediction)

    def _describe(self, prediction: Prediction) -> str:
        conf = prediction.video_conf
        places = ", ".join(
            f"{stage} with model {place['model_id']} on {place.get('node') or place['node_ip']}"
            for stage, place in prediction.flow_mapping.items()
        )
        up_to = "" if (self.generator or {}).get("fps") else "≤ "
        return (
            f"{conf.resolution} as {conf.encoder.value}, {conf.nskip} left out after each, {places}: predicted"
            f" {prediction.delay_s:.3f} s of {self.hi:.3f} s, {up_to}{prediction.fps:.0f} frames/s, quality"
            f" {prediction.quality:.2f}, {prediction.bytes_up / 1000:.1f} kB a frame"
        )


def _make_answer(prediction: Prediction) -> Answer:
    return prediction.video_conf.to_json(), {stage: dict(place) for stage, place in prediction.flow_mapping.items()}
