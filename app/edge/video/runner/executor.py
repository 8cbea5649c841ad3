"""Runs the DAG on a frame: stages whose inputs are complete run concurrently."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from typing import Any

from app.edge.media.picture_sizes import Size, resize_picture
from app.edge.video.runner.frame_context import (
    CapturedFrame,
    DagRequirements,
    FrameContext,
    FrameFailed,
    FrameOutcome,
    Timing,
)
from app.edge.video.runner.frame_transport import KEPT_THERE, H264Uplinks, OutgoingPictures
from app.edge.video.runner.stage_client import HostAway, HostNotReady, StageAnswer, StageClient, StageFailed
from app.edge.video.runner.stage_outputs import read_outputs
from app.edge.video.runner.stage_router import StageRoute, StageRouter
from app.edge.video.stage_host.errors import NoDecoder
from app.edge.video.stages.parameters import timeout_of
from app.video.model.dag import Reference
from app.video.model.job import StageHost
from app.video.model.kinds import CLIP, Stage
from app.video.model.plan import Encoder, Plan, StagePlace
from app.video.model.stage_call import Call, Encoded, KeyframeNeeded, PictureNotKept

REMOTE_S = (5.0, 30.0)
"""The shortest and the longest time limit, in seconds, for the answer of another node."""
EXTRA_S = 10.0
"""Seconds that the node's own host gets beyond the stage's time limit, for earlier frames and opening the model."""
TRIES = 3
logger = logging.getLogger(__name__)


class Executor:
    """Runs the DAG on frames. Any number of threads may use it, one frame each.

    Args:
        uid: the id of the job.
        needs: the values that each stage of the DAG takes.
        stages: the stages of the DAG, for their time limits.
        router: selects the host of a stage.
        client: calls hosts.
        uplinks: send pictures as one H264 stream to each host.
    """

    def __init__(
        self,
        uid: str,
        needs: DagRequirements,
        stages: Sequence[Stage],
        router: StageRouter,
        client: StageClient,
        uplinks: H264Uplinks,
    ) -> None:
        self.uid, self.needs, self.router, self.client, self.uplinks = uid, needs, router, client, uplinks
        self.hi_s = 1.0
        """Seconds that a frame may take according to the current constraint."""
        self._limits = {stage.name: timeout_of(stage.parameters) + EXTRA_S for stage in stages}
        self._siblings = ThreadPoolExecutor(16, thread_name_prefix="stage")

    def close(self) -> None:
        self._siblings.shutdown(wait=False, cancel_futures=True)

    def run(
        self, frame: CapturedFrame, plan: Plan, size: Size, *, name: str, only: frozenset[str] | None = None
    ) -> FrameOutcome:
        """
        Args:
            frame: the frame to process.
            plan: applies to the whole run.
            size: the size in which the picture is sent.
            name: the name under which hosts keep its pictures.
            only: runs these stages, which must not depend on others; None: all.

        Raises:
            FrameFailed: It got no result.
        """
        context = FrameContext(self.needs, plan, name, size)
        self._begin(context, frame)
        dag = self.needs.dag
        left = {stage: set(dag.before[stage]) for stage in dag.stages if only is None or stage in only}
        running: dict[Future[None], str] = {}
        try:
            while left or running:
                ready = [stage for stage, waits in left.items() if not waits]
                for stage in ready:
                    del left[stage]
                for stage in ready[1:]:
                    running[self._siblings.submit(self.stage, context, stage)] = stage
                done = self._one(context, ready[0]) if ready else _collect_ended(running)
                left = {stage: waits - done for stage, waits in left.items()}
        except FrameFailed:
            wait(running)
            raise
        return context.outcome()

    def _one(self, context: FrameContext, stage: str) -> set[str]:
        self.stage(context, stage)
        return {stage}

    def _begin(self, context: FrameContext, frame: CapturedFrame) -> None:
        needs = self.needs
        image = resize_picture(frame.picture, context.size)
        context.values[needs.picture] = OutgoingPictures(str(needs.picture), image)
        if needs.dag.generator == CLIP.name:
            rest = [resize_picture(picture, context.size) for picture in frame.clip[1:]]
            context.values[Reference(CLIP.name, "clip")] = OutgoingPictures("clip", image, *rest)

    def prepare(self, plan: Plan, before: Plan | None, timeout_s: float) -> None:
        """Has hosts open the models of a plan that the plan before it does not use, all at once. What cannot be opened
        is left to the plan's first frames.

        Args:
            before: None: it is the first.
            timeout_s: seconds in total.
        """
        places = before.flow_mapping.items() if before is not None else ()
        used = {(stage, place.model_id, place.node) for stage, place in places}
        fresh = [one for one in plan.flow_mapping.items() if (one[0], one[1].model_id, one[1].node) not in used]
        wait([self._siblings.submit(self._prepare, stage, place, timeout_s) for stage, place in fresh], timeout_s)

    def _prepare(self, stage: str, place: StagePlace, timeout_s: float) -> None:
        route = self.router.route(place)
        if route is None:
            return
        try:
            self.client.prepare(route.host, self.uid, stage, place.model_id, timeout_s)
        except (HostAway, StageFailed) as error:
            logger.info("Stage %s is not opened ahead: %s", stage, error)

    def stage(self, context: FrameContext, stage: str) -> None:
        """Computes a stage of a frame.

        Raises:
            FrameFailed: No host has computed it.
        """
        place = context.plan.flow_mapping.get(stage)
        if place is None:
            raise FrameFailed(stage, "the plan does not say where it runs", is_fault=False)
        inputs = context.inputs_of(stage)
        for _ in range(TRIES):
            route = self.router.route(place)
            if route is None:
                break
            try:
                answer = self._request_answer(context, stage, place, route, inputs)
            except HostAway as error:
                if self.router.is_local(route.host):
                    raise FrameFailed(stage, str(error), is_fault=error.was_slow) from error
                self.router.failed(route.host, str(error))
                continue
            self.router.went_well(route.host)
            outputs = read_outputs(stage, self.needs.kinds[stage], self.needs.outputs[stage], answer.outputs)
            context.answered(stage, outputs, _make_timing(answer, route, self.router))
            return
        raise FrameFailed(stage, "no host of stages is known that could run it", is_fault=False)

    def _request_answer(
        self, context: FrameContext, stage: str, place: StagePlace, route: StageRoute, inputs: Mapping[str, Any]
    ) -> StageAnswer:
        try:
            return self.call(context, stage, place.model_id, route.host, inputs)
        except (StageFailed, NoDecoder) as error:
            raise FrameFailed(stage, str(error)) from error
        except HostNotReady as error:
            if self.router.is_local(route.host):
                raise FrameFailed(stage, str(error), is_fault=False) from error
            raise HostAway(str(error)) from error

    def call(
        self, context: FrameContext, stage: str, model_id: int, host: StageHost, inputs: Mapping[str, Any]
    ) -> StageAnswer:
        """Computes a stage for a frame on its host.

        Args:
            context: the frame, with the outputs of its earlier stages.
            model_id: which of the stage's models; 0 is the smallest.
            inputs: the inputs of the stage in the DAG: pictures are cropped, scaled and encoded as the host needs them;
                all other inputs are JSON.

        Raises:
            HostAway, HostNotReady: Nothing was computed; another host may compute it.
            StageFailed: The stage itself failed.
        """
        pictures = {name: value for name, value in inputs.items() if isinstance(value, OutgoingPictures)}
        fields = {name: value for name, value in inputs.items() if name not in pictures}
        single = len(pictures) == 1 and all(len(value.pictures) == 1 for value in pictures.values())
        name, picture = next(iter(pictures.items()), ("", None))
        frame = f"{context.name}/{picture.name}" if single and picture else ""
        call = Call(stage, model_id, fields, {}, self.uid, frame, self.needs.outputs[stage])
        timeout_s = self._choose_timeout(stage, host)
        if not single or picture is None:
            whole = {name: self._encode_whole(value, host) for name, value in pictures.items()}
            return self.client.call(host, _with(call, whole), timeout_s)
        return self._of_picture(context, call, host, name, picture, timeout_s)

    def _of_picture(
        self, context: FrameContext, call: Call, host: StageHost, name: str, picture: OutgoingPictures, timeout_s: float
    ) -> StageAnswer:
        """Sends the picture to a host once; later calls refer to it by name."""
        transfer = picture.transfer(host.node, name)
        if not transfer.claim():
            transfer.sent.wait(timeout_s)
            with suppress(PictureNotKept):
                return self.client.call(host, _with(call, {name: KEPT_THERE}), timeout_s)
        try:
            if self._is_h264(context, host, picture):
                return self._by_stream(call, host, name, picture, timeout_s, transfer.sent.set)
            return self.client.call(
                host, _with(call, {name: self._encode_whole(picture, host)}), timeout_s, transfer.sent.set
            )
        except (PictureNotKept, KeyframeNeeded) as error:
            raise StageFailed(f"{host.node} does not take a whole picture: {error.message}") from error
        finally:
            transfer.sent.set()

    def _by_stream(
        self,
        call: Call,
        host: StageHost,
        name: str,
        picture: OutgoingPictures,
        timeout_s: float,
        sent: Callable[[], None],
    ) -> StageAnswer:
        """Sends the picture as a packet, which the next one may follow before the answer; as JPEG if H264 fails."""
        encoder, lost = self.uplinks.encoder(host.node, name), 0
        for _ in range(TRIES):
            with ExitStack() as turn:
                turn.enter_context(encoder.turn)
                try:
                    packet, seq = encoder.packet(picture.picture, lost=lost), encoder.seq
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
        return self.client.call(host, _with(call, {name: picture.jpeg()}), timeout_s, sent)

    def _is_h264(self, context: FrameContext, host: StageHost, picture: OutgoingPictures) -> bool:
        return (
            not self.router.is_local(host)
            and context.plan.video_conf.encoder is Encoder.H264
            and self.uplinks.takes_h264(host.node)
            and picture is context.values[self.needs.picture]
            and not any(side % 2 for side in picture.size)
        )

    def _encode_whole(self, picture: OutgoingPictures, host: StageHost) -> tuple[Encoded, ...]:
        return picture.raw() if self.router.is_local(host) else picture.jpeg()

    def _choose_timeout(self, stage: str, host: StageHost) -> float:
        if self.router.is_local(host):
            return self._limits[stage]
        least, most = REMOTE_S
        return min(most, max(least, 4 * self.hi_s))


def _with(call: Call, pictures: Mapping[str, tuple[Encoded, ...]]) -> Call:
    return Call(call.stage, call.model_id, call.fields, pictures, call.job, call.frame, call.want)


def _collect_ended(running: dict[Future[None], str]) -> set[str]:
    """Returns the stages that have ended. Raises what one of them raised."""
    ended, _ = wait(running, return_when=FIRST_COMPLETED)
    stages = {running.pop(future): future for future in ended}
    for future in stages.values():
        future.result()
    return set(stages)


def _make_timing(answer: StageAnswer, route: StageRoute, router: StageRouter) -> Timing:
    far = not router.is_local(route.host)
    return Timing(
        route.host.node,
        answer.delay_s,
        answer.server_s,
        answer.queue_s,
        answer.way_s if far else 0.0,
        answer.sent if far else 0,
        is_fallback=not route.is_planned,
        model=answer.model,
    )
