"""The JSON API of notifications: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.auth import user_of
from app.kit.web.http import json_answer, json_body, query
from app.kit.web.openapi import Operation
from app.notifications import schemas
from app.notifications.access import notifications_of
from app.notifications.model import EventKind
from app.notifications.schemas import DELIVERIES, TARGETS


def list_notification_targets(request: Request) -> Response:
    targets = notifications_of(request).targets.of(user_of(request))
    return json_answer(schemas.TargetsAnswer(targets=[schemas.target_answer(target) for target in targets]))


async def add_notification_target(request: Request) -> Response:
    body = await json_body(request, schemas.TargetBody)
    target = await run_in_threadpool(notifications_of(request).targets.add, user_of(request), body.new())
    return json_answer(schemas.new_target_answer(target), 201, {"Location": f"{TARGETS}/{target.target_id}"})


def get_notification_target(request: Request) -> Response:
    target = notifications_of(request).targets.get(user_of(request), request.path_params["target_id"])
    return json_answer(schemas.target_answer(target))


async def change_notification_target(request: Request) -> Response:
    body = await json_body(request, schemas.TargetChange)
    values = body.model_dump(exclude_none=True)
    if "events" in values:
        values["events"] = tuple(map(EventKind, values["events"]))
    target_id, targets = request.path_params["target_id"], notifications_of(request).targets
    target = await run_in_threadpool(lambda: targets.change(user_of(request), target_id, **values))
    return json_answer(schemas.target_answer(target))


def remove_notification_target(request: Request) -> Response:
    notifications_of(request).targets.remove(user_of(request), request.path_params["target_id"])
    return Response(status_code=204)


def test_notification_target(request: Request) -> Response:
    delivery = notifications_of(request).targets.test(user_of(request), request.path_params["target_id"])
    return json_answer(schemas.delivery_answer(delivery), 202)


def list_notification_deliveries(request: Request) -> Response:
    params, outbox = query(request, schemas.DeliveriesQuery), notifications_of(request).outbox
    deliveries = outbox.newest(user_of(request), target_id=params.target_id, limit=params.limit)
    return json_answer(schemas.DeliveriesAnswer(deliveries=[schemas.delivery_answer(each) for each in deliveries]))


def get_notification_delivery(request: Request) -> Response:
    outbox = notifications_of(request).outbox
    return json_answer(schemas.delivery_answer(outbox.get(user_of(request), request.path_params["delivery_id"])))


def redeliver_notification(request: Request) -> Response:
    outbox = notifications_of(request).outbox
    return json_answer(
        schemas.delivery_answer(outbox.redeliver(user_of(request), request.path_params["delivery_id"])), 202
    )


_TARGET, _DELIVERY = TARGETS + "/{target_id}", DELIVERIES + "/{delivery_id}"
_TARGET_ID = {"target_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"}}
_DELIVERY_ID = {"delivery_id": {"type": "string", "pattern": "^msg_[0-9a-f]{32}$"}}

OPERATIONS = [
    Operation(
        "GET",
        TARGETS,
        list_notification_targets,
        "Where I am told of what happens to what is mine",
        {200: schemas.TargetsAnswer},
        errors=(503,),
    ),
    Operation(
        "POST",
        TARGETS,
        add_notification_target,
        "Be told by webhook, e-mail or chat",
        {201: schemas.NewTargetAnswer},
        errors=(400, 403, 409, 413, 422, 429, 503),
        body=schemas.TargetBody,
    ),
    Operation(
        "GET",
        _TARGET,
        get_notification_target,
        "A target",
        {200: schemas.TargetAnswer},
        errors=(404, 503),
        parameters=_TARGET_ID,
    ),
    Operation(
        "PATCH",
        _TARGET,
        change_notification_target,
        "Change its events or label, or switch it on or off",
        {200: schemas.TargetAnswer},
        errors=(400, 404, 413, 422, 503),
        body=schemas.TargetChange,
        parameters=_TARGET_ID,
    ),
    Operation(
        "DELETE",
        _TARGET,
        remove_notification_target,
        "Forget a target and its messages",
        {204: None},
        errors=(404, 503),
        parameters=_TARGET_ID,
    ),
    Operation(
        "POST",
        f"{_TARGET}/test",
        test_notification_target,
        "Send it a test message",
        {202: schemas.DeliveryAnswer},
        errors=(404, 429, 503),
        parameters=_TARGET_ID,
    ),
    Operation(
        "GET",
        DELIVERIES,
        list_notification_deliveries,
        "My last messages, newest first",
        {200: schemas.DeliveriesAnswer},
        errors=(422, 503),
        query=schemas.DeliveriesQuery,
    ),
    Operation(
        "GET",
        _DELIVERY,
        get_notification_delivery,
        "A message, and how it went",
        {200: schemas.DeliveryAnswer},
        errors=(404, 503),
        parameters=_DELIVERY_ID,
    ),
    Operation(
        "POST",
        f"{_DELIVERY}/redeliver",
        redeliver_notification,
        "Send a message once more, under the same id",
        {202: schemas.DeliveryAnswer},
        errors=(404, 503),
        parameters=_DELIVERY_ID,
    ),
]
