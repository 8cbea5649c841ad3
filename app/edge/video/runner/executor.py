"""Runs the DAG on a frame: stages that wait for nothing more run at once, beside each other."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from typing import Any

from app.edge.video.runner.frame_context import DagRequirements, FrameContext, FrameFailed, Outcome, Taken, Timing
from app.edge.video.runner.frame_transport import KEPT_THERE, Sendable, Uplinks
from app.edge.video.runner.resize import Size, resized
from app.edge.video.runner.stage_client import Answer, HostAway, HostNotReady, Route, Routes, StageClient, StageFailed
from app.edge.video.stage_host.errors import NoDecoder
from app.edge.video.stages.parameters import timeout_of
from app.inference.errors import DamagedPicture
from app.inference.picture_codec import decode
from app.video.model.dag import Reference
from app.video.model.job import StageHost
from app.video.model.kinds import CLIP, Stage, Type
from app.video.model.plan import Encoder, Plan, StagePlace
from app.video.model.stage_call import Call, Encoded, KeyframeNeeded, PictureNotKept

REMOTE_S = (5.0, 30.0)
"""Least and most that another node is given to answer."""
EXTRA_S = 10.0
"""What the node's own host is given beyond the stage's own limit: for the frames before, and for opening the model."""
TRIES = 3
ENCODED: Mapping[Type, str] = {Type.IMAGE: "image", Type.CLIP: "clip"}


class Executor:
    """For any number of threads, a frame each. hi_s: of the constraint, as it is now."""

    def __init__(
        self,
        uid: str,
        needs: DagRequirements,
        stages: Sequence[Stage],
        routes: Routes,
        client: StageClient,
        uplinks: Uplinks,
    ) -> None:
        self.uid, self.needs, self.routes, self.client, self.uplinks = uid, needs, routes, client, uplinks
        self.hi_s = 1.0
        self._limits = {stage.name: timeout_of(stage.parameters) + EXTRA_S for stage in stages}
        self._siblings = ThreadPoolExecutor(16, thread_name_prefix="stage")

    def close(self) -> None:
        self._siblings.shutdown(wait=False, cancel_futures=True)

    def run(self, frame: Taken, plan: Plan, size: Size, *, name: str, only: frozenset[str] | None = None) -> Outcome:
        """only: these stages, which must need no others. Raises FrameFailed."""
        passing = FrameContext(self.needs, plan, name, size)
        self._begin(passing, frame)
        dag = self.needs.dag
        left = {stage: set(dag.before[stage]) for stage in dag.stages if only is None or stage in only}
        running: dict[Future[None], str] = {}
        try:
            while left or running:
                ready = [stage for stage, waits in left.items() if not waits]
                for stage in ready:
                    del left[stage]
                for stage in ready[1:]:
                    running[self._siblings.submit(self.stage, passing, stage)] = stage
                done = self._one(passing, ready[0]) if ready else _awaited(running)
                left = {stage: waits - done for stage, waits in left.items()}
        except FrameFailed:
            wait(running)
            raise
        return passing.outcome()

    def _one(self, passing: FrameContext, stage: str) -> set[str]:
        self.stage(passing, stage)
        return {stage}

    def _begin(self, passing: FrameContext, frame: Taken) -> None:
        needs = self.needs
        image = resized(frame.picture, passing.size)
        passing.values[needs.picture] = Sendable(str(needs.picture), image)
        if needs.dag.generator == CLIP.name:
            rest = [resized(picture, passing.size) for picture in frame.clip[1:]]
            passing.values[Reference(CLIP.name, "clip")] = Sendable("clip", image, *rest)

    def stage(self, passing: FrameContext, stage: str) -> None:
        """Raises FrameFailed."""
        place = passing.plan.flow_mapping.get(stage)
        if place is None:
            raise FrameFailed(stage, "the plan does not say where it runs", is_fault=False)
        inputs = passing.inputs_of(stage)
        for _ in range(TRIES):
            route = self.routes.route(place)
            if route is None:
                break
            try:
                answer = self._answered(passing, stage, place, route, inputs)
            except HostAway as error:
                if self.routes.is_local(route.host):
                    raise FrameFailed(stage, str(error), is_fault=error.was_slow) from error
                self.routes.failed(route.host, str(error))
                continue
            self.routes.went_well(route.host)
            passing.found(stage, self._read(stage, answer.outputs), _timing(answer, route, self.routes))
            return
        raise FrameFailed(stage, "no host of stages is known that could run it", is_fault=False)

    def _answered(
        self, passing: FrameContext, stage: str, place: StagePlace, route: Route, inputs: Mapping[str, Any]
    ) -> Answer:
        try:
            return self.call(passing, stage, place.model_id, route.host, inputs)
        except (StageFailed, NoDecoder) as error:
            raise FrameFailed(stage, str(error)) from error
        except HostNotReady as error:
            if self.routes.is_local(route.host):
                raise FrameFailed(stage, str(error), is_fault=False) from error
            raise HostAway(str(error)) from error

    def call(
        self, passing: FrameContext, stage: str, model_id: int, host: StageHost, inputs: Mapping[str, Any]
    ) -> Answer:
        """Raises HostAway, HostNotReady, StageFailed."""
        pictures = {name: value for name, value in inputs.items() if isinstance(value, Sendable)}
        fields = {name: value for name, value in inputs.items() if name not in pictures}
        single = len(pictures) == 1 and all(len(value.pictures) == 1 for value in pictures.values())
        name, shown = next(iter(pictures.items()), ("", None))
        frame = f"{passing.name}/{shown.name}" if single and shown else ""
        made = Call(stage, model_id, fields, {}, self.uid, frame, self.needs.wanted[stage])
        timeout_s = self._timeout(stage, host)
        if not single or shown is None:
            whole = {name: self._whole(value, host) for name, value in pictures.items()}
            return self.client.call(host, _with(made, whole), timeout_s)
        return self._of_picture(passing, made, host, name, shown, timeout_s)

    def _of_picture(
        self, passing: FrameContext, call: Call, host: StageHost, name: str, shown: Sendable, timeout_s: float
    ) -> Answer:
        """The picture goes to a host once; who comes second names it."""
        way = shown.way(host.node, name)
        if not way.first():
            way.gone.wait(timeout_s)
            with suppress(PictureNotKept):
                return self.client.call(host, _with(call, {name: KEPT_THERE}), timeout_s)
        try:
            if self._is_h264(passing, host, shown):
                return self._by_stream(call, host, name, shown, timeout_s, way.gone.set)
            return self.client.call(host, _with(call, {name: self._whole(shown, host)}), timeout_s, way.gone.set)
        except (PictureNotKept, KeyframeNeeded) as error:
            raise StageFailed(f"{host.node} does not take a whole picture: {error.message}") from error
        finally:
            way.gone.set()

    def _by_stream(
        self, call: Call, host: StageHost, name: str, shown: Sendable, timeout_s: float, sent: Callable[[], None]
    ) -> Answer:
        """As a packet, which the next may follow before it has been answered; as JPEG where that does not do."""
        stream, lost = self.uplinks.stream(host.node, name), 0
        for _ in range(TRIES):
            with ExitStack() as turn:
                turn.enter_context(stream.turn)
                try:
                    packet, seq = stream.packet(shown.picture, lost=lost), stream.seq
                except RuntimeError:
                    break
                turn.callback(sent)
                try:
                    return self.client.call(host, _with(call, {name: (packet,)}), timeout_s, turn.close)
                except KeyframeNeeded:
                    lost = seq
                except NoDecoder:
                    self.uplinks.refused(host.node)
                    break
        return self.client.call(host, _with(call, {name: shown.jpeg()}), timeout_s, sent)

    def _is_h264(self, passing: FrameContext, host: StageHost, shown: Sendable) -> bool:
        wanted = passing.plan.video_conf.encoder
        return (
            not self.routes.is_local(host)
            and wanted is Encoder.H264
            and self.uplinks.takes_h264(host.node)
            and shown is passing.values[self.needs.picture]
            and not any(side % 2 for side in shown.size)
        )

    def _whole(self, shown: Sendable, host: StageHost) -> tuple[Encoded, ...]:
        return shown.raw() if self.routes.is_local(host) else shown.jpeg()

    def _timeout(self, stage: str, host: StageHost) -> float:
        if self.routes.is_local(host):
            return self._limits[stage]
        least, most = REMOTE_S
        return min(most, max(least, 4 * self.hi_s))

    def _read(self, stage: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Raises FrameFailed for an answer that lacks something, or has a picture that is none."""
        kind = self.needs.kinds[stage]
        missing = [name for name in self.needs.wanted[stage] if name not in outputs]
        if missing:
            raise FrameFailed(stage, f"its answer has no {', '.join(sorted(missing))}")
        found = {}
        for name in self.needs.wanted[stage]:
            value, type_ = outputs[name], kind.outputs.get(name)
            if type_ in ENCODED:
                value = _picture(stage, name, value)
            elif type_ is Type.BOXES and not _are_boxes(value):
                raise FrameFailed(stage, f"{name} of its answer are no boxes")
            found[name] = value
        return found


def _with(call: Call, pictures: Mapping[str, tuple[Encoded, ...]]) -> Call:
    return Call(call.stage, call.model_id, call.fields, pictures, call.job, call.frame, call.want)


def _awaited(running: dict[Future[None], str]) -> set[str]:
    """The stages that have ended. Raises what one of them raised."""
    ended, _ = wait(running, return_when=FIRST_COMPLETED)
    stages = {running.pop(future): future for future in ended}
    for future in stages.values():
        future.result()
    return set(stages)


def _timing(answer: Answer, route: Route, routes: Routes) -> Timing:
    far = not routes.is_local(route.host)
    return Timing(
        route.host.node,
        answer.delay_s,
        answer.server_s,
        answer.queue_s,
        answer.way_s if far else 0.0,
        answer.sent if far else 0,
        is_fallback=not route.is_planned,
    )


def _picture(stage: str, name: str, value: Any) -> Sendable:
    try:
        texts = value if isinstance(value, list) else [value]
        return Sendable(f"{stage}.{name}", *(decode(base64.b64decode(text, validate=True)) for text in texts))
    except (DamagedPicture, binascii.Error, ValueError, TypeError) as error:
        raise FrameFailed(stage, f"{name} of its answer is no picture: {error}") from error


def _are_boxes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(box, list) and len(box) == 4 and all(isinstance(side, int | float) for side in box) for box in value
    )
