"""The JSON that goes in and out of the API of notifications, and the forms of its page."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.strict import TEXT, Strict
from app.notifications.model import Delivery, DeliveryState, EventKind, Kind, Target
from app.notifications.service import NewTarget

TARGETS, DELIVERIES = "/notifications/targets", "/notifications/deliveries"
SUBJECT = r"^(job:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(task|service|video):[A-Za-z0-9_.:-]{1,150})?$"
Language = Literal["en", "zh-Hant"]
Label = Annotated[str, StringConstraints(strip_whitespace=True, max_length=100, pattern=TEXT)]
Address = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000, pattern=TEXT)]
Subject = Annotated[str, StringConstraints(strip_whitespace=True, max_length=160, pattern=SUBJECT)]


class TargetBody(Strict):
    """Body of POST /notifications/targets."""

    kind: Kind
    address: Address
    """A URL, or an e-mail address for the kind email."""
    events: Annotated[tuple[EventKind, ...], Field(max_length=20)] = ()
    """Events that it receives; empty: all."""
    subject: Subject = ""
    """Only events of this subject: job:<id>, task:<id>, service:<uid> or video:<uid>; empty: all."""
    label: Label = ""
    language: Language = "en"
    """Language of e-mails and chat messages."""

    def new(self) -> NewTarget:
        return NewTarget(self.kind, self.address, self.events, self.subject, self.label, self.language)


class TargetChange(Strict):
    """Body of PATCH: fields that are not given do not change."""

    events: Annotated[tuple[EventKind, ...], Field(max_length=20)] | None = None
    label: Label | None = None
    is_enabled: bool | None = None


class DeliveriesQuery(Strict):
    target_id: Annotated[str, Field(max_length=32, pattern=r"^[0-9a-f]*$")] = ""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class TargetAnswer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)
    target_id: str
    kind: Kind
    address: str
    """The address; for chat without its last part, which is a key."""
    events: list[str]
    subject: str
    label: str
    language: str
    is_enabled: bool
    problem: str
    """Why it was switched off, if the user did not do it."""
    created_at: str


class NewTargetAnswer(TargetAnswer):
    secret: str
    """whsec_…, which verifies the signature of a webhook; shown only once."""


class TargetsAnswer(BaseModel):
    targets: list[TargetAnswer]


class EventData(BaseModel):
    """What happened; more members depend on the kind of the event."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    event_id: str
    subject: str
    """job:<id>, task:<id>, service:<uid> or video:<uid>."""
    name: str
    url: str
    """Page of the subject; empty if it has none."""


class DeliveryBody(BaseModel):
    """The message as a webhook receives it."""

    type: str
    timestamp: str
    data: EventData


class DeliveryAnswer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)
    delivery_id: str
    """The webhook-id that the receiver sees, the same at every attempt."""
    target_id: str
    event_kind: str
    state: DeliveryState
    tries: int
    status: int | None
    """Last HTTP status or SMTP code of the receiver."""
    problem: str
    created_at: str
    due_at: str
    """Time of the next attempt, while it is PENDING."""
    ended_at: str | None
    body: Annotated[JsonObject, DescribedType(DeliveryBody)]

    @field_validator("body", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value


class DeliveriesAnswer(BaseModel):
    deliveries: list[DeliveryAnswer]


def mask_address(target: Target) -> str:
    """A chat's address is a key to it: its last part stays hidden."""
    if target.kind is not Kind.CHAT:
        return target.address
    return f"{target.address.rpartition('/')[0]}/…"


def target_answer(target: Target) -> TargetAnswer:
    return TargetAnswer.model_validate(_list_fields(target))


def new_target_answer(target: Target) -> NewTargetAnswer:
    return NewTargetAnswer.model_validate({**_list_fields(target), "secret": target.secret})


def delivery_answer(delivery: Delivery) -> DeliveryAnswer:
    return DeliveryAnswer.model_validate(vars(delivery))


def _list_fields(target: Target) -> JsonObject:
    return {**vars(target), "address": mask_address(target), "events": [kind.value for kind in target.events]}
