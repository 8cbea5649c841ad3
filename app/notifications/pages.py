"""The page of a user's notifications: targets, the last messages, and actions on them."""

from __future__ import annotations

import json
from typing import Annotated, cast

from pydantic import BaseModel, BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import FilterForm, query
from app.kit.web.idempotency import form_once
from app.kit.web.languages import language_of
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render
from app.notifications.access import notifications_of
from app.notifications.model import EventKind, Kind
from app.notifications.schemas import Address, Label, Language, Subject, TargetBody, mask_address

PAGE = "/ui/account/notifications"
Several = Annotated[tuple[EventKind, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)]


class PageQuery(FilterForm):
    subject: Subject = ""
    """The only subject of a new target: the link on a job's page sets it."""
    note: Annotated[str, Field(max_length=20)] = ""


class TargetForm(BaseModel):
    kind: Kind
    address: Address
    events: Several = ()
    subject: Subject = ""
    label: Label = ""


class SwitchForm(BaseModel):
    is_enabled: bool


def page(request: Request) -> Response:
    params = query(request, PageQuery)
    return _render_page(request, subject=params.subject, note=params.note)


@with_form(TargetForm)
def add(request: Request, fields: TargetForm) -> Response:
    """Adds a target. The response is the only page that ever shows a webhook's secret."""
    language = cast("Language", language_of(request))
    body = TargetBody(
        kind=fields.kind,
        address=fields.address,
        events=fields.events,
        subject=fields.subject,
        label=fields.label,
        language=language,
    )
    try:
        target = notifications_of(request).targets.add(user_of(request), body.new())
    except ModelmillError as error:
        return _render_page(request, subject=fields.subject, error=error, given=fields)
    if not target.secret:
        return see_other(f"{PAGE}?note=added")
    return render(request, "notifications/secret.html", area="account", target=target, back=PAGE)


def test(request: Request) -> Response:
    notifications_of(request).targets.test(user_of(request), request.path_params["target_id"])
    return see_other(f"{PAGE}?note=tested")


@with_form(SwitchForm)
def switch(request: Request, fields: SwitchForm) -> Response:
    target_id = request.path_params["target_id"]
    notifications_of(request).targets.change(user_of(request), target_id, is_enabled=fields.is_enabled)
    return see_other(f"{PAGE}?note=saved")


def remove(request: Request) -> Response:
    notifications_of(request).targets.remove(user_of(request), request.path_params["target_id"])
    return see_other(f"{PAGE}?note=removed")


def redeliver(request: Request) -> Response:
    notifications_of(request).outbox.redeliver(user_of(request), request.path_params["delivery_id"])
    return see_other(f"{PAGE}?note=again")


def _render_page(
    request: Request,
    *,
    subject: str = "",
    note: str = "",
    error: ModelmillError | None = None,
    given: TargetForm | None = None,
) -> Response:
    notifications, user = notifications_of(request), user_of(request)
    targets, deliveries = notifications.targets.of(user), notifications.outbox.newest(user)
    return render(
        request,
        "notifications/notifications.html",
        area="account",
        targets=targets,
        addresses={target.target_id: mask_address(target) for target in targets},
        targets_by_id={target.target_id: target for target in targets},
        deliveries=deliveries,
        subjects={each.delivery_id: json.loads(each.body)["data"].get("name", "") for each in deliveries},
        shown_at=to_text(now()),
        kinds=[kind for kind in Kind if kind is not Kind.EMAIL or notifications.targets.has_mail],
        events=list(EventKind),
        subject=subject,
        note=note,
        error=error,
        given=given,
    )


ROUTES = [
    Route(PAGE, page),
    Route(PAGE, form_once(add), methods=["POST"]),
    Route(PAGE + "/{target_id}/test", form_once(test), methods=["POST"]),
    Route(PAGE + "/{target_id}/switch", switch, methods=["POST"]),
    Route(PAGE + "/{target_id}/remove", remove, methods=["POST"]),
    Route(PAGE + "/messages/{delivery_id}/redeliver", redeliver, methods=["POST"]),
]
