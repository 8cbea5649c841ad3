"""The JSON API of notifications: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.notifications import schemas
from app.notifications.access import notifications_of
from app.notifications.schemas import DELIVERIES, TARGETS

_TARGET, _DELIVERY = TARGETS + "/{target_id}", DELIVERIES + "/{delivery_id}"
OPERATIONS = Operations(
    {
        "target_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "delivery_id": {"type": "string", "pattern": "^msg_[0-9a-f]{32}$"},
    }
)


@OPERATIONS.get(TARGETS, "List my notification targets", schemas.TargetsAnswer)
def list_notification_targets(request: Request) -> Response:
    targets = notifications_of(request).targets.of(user_of(request))
    return json_answer(schemas.TargetsAnswer(targets=[schemas.target_answer(target) for target in targets]))


@OPERATIONS.post(
    TARGETS,
    "Add a notification target: a webhook, an e-mail address or a chat",
    {201: schemas.NewTargetAnswer},
    more_errors=(403, 409, 429),
)
def add_notification_target(request: Request, body: schemas.TargetBody) -> Response:
    target = notifications_of(request).targets.add(user_of(request), body.new())
    return json_answer(schemas.new_target_answer(target), 201, {"Location": f"{TARGETS}/{target.target_id}"})


@OPERATIONS.get(_TARGET, "Get a target", schemas.TargetAnswer, more_errors=(404,))
def get_notification_target(request: Request, target_id: str) -> Response:
    target = notifications_of(request).targets.get(user_of(request), target_id)
    return json_answer(schemas.target_answer(target))


@OPERATIONS.patch(
    _TARGET,
    "Change the events or the label of a target, or switch it on or off",
    schemas.TargetAnswer,
    more_errors=(404,),
)
def change_notification_target(request: Request, target_id: str, body: schemas.TargetChange) -> Response:
    values = body.model_dump(exclude_none=True)
    targets = notifications_of(request).targets
    target = targets.change(user_of(request), target_id, **values)
    return json_answer(schemas.target_answer(target))


@OPERATIONS.delete(_TARGET, "Remove a target and its messages", more_errors=(404,))
def remove_notification_target(request: Request, target_id: str) -> None:
    notifications_of(request).targets.remove(user_of(request), target_id)


@OPERATIONS.post(
    f"{_TARGET}/test",
    "Send a test message to a target",
    {202: schemas.DeliveryAnswer},
    more_errors=(404, 429),
    creates_later=True,
)
def test_notification_target(request: Request, target_id: str) -> Response:
    delivery = notifications_of(request).targets.test(user_of(request), target_id)
    return json_answer(schemas.delivery_answer(delivery), 202)


@OPERATIONS.get(DELIVERIES, "List my last messages, newest first", schemas.DeliveriesAnswer)
def list_notification_deliveries(request: Request, params: schemas.DeliveriesQuery) -> Response:
    outbox = notifications_of(request).outbox
    deliveries = outbox.newest(user_of(request), target_id=params.target_id, limit=params.limit)
    return json_answer(schemas.DeliveriesAnswer(deliveries=[schemas.delivery_answer(each) for each in deliveries]))


@OPERATIONS.get(_DELIVERY, "Get a message and its delivery", schemas.DeliveryAnswer, more_errors=(404,))
def get_notification_delivery(request: Request, delivery_id: str) -> Response:
    outbox = notifications_of(request).outbox
    return json_answer(schemas.delivery_answer(outbox.get(user_of(request), delivery_id)))


@OPERATIONS.post(
    f"{_DELIVERY}/redeliver",
    "Send a message again, with the same id",
    {202: schemas.DeliveryAnswer},
    more_errors=(404,),
)
def redeliver_notification(request: Request, delivery_id: str) -> Response:
    outbox = notifications_of(request).outbox
    return json_answer(schemas.delivery_answer(outbox.redeliver(user_of(request), delivery_id)), 202)
