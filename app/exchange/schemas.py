"""The JSON that goes in and out of the API of exchange."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from app.exchange.model import Direction, TransferState
from app.kit.text.json_values import JsonObject
from app.kit.web.strict import TEXT, Strict

Place = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
ModelName = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=TEXT)]


class NewFetch(Strict):
    """Body of POST /transfers."""

    source: Place
    """hf://org/model[@revision][:file], mlflow://run/ID/path, models:/name/version, s3://bucket/key, https://…"""


class NewExport(Strict):
    """Body of POST /jobs/{job_id}/exports."""

    target: Place
    """Destination: hf://org/model or mlflow://experiment/NAME."""
    registered_model: ModelName = ""
    """Registered model of MLflow that gets a new version; empty: none."""


class NewDeviceResult(Strict):
    """Body of POST /device-results/{job_id}, as smoke.py of a pack sends it."""

    is_pass: bool
    latency_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    host: Annotated[str, StringConstraints(max_length=200, pattern=TEXT)] = ""
    message: Annotated[str, StringConstraints(max_length=2000)] = ""


class DeviceResultAnswer(BaseModel):
    is_pass: bool
    latency_ms: float
    host: str
    message: str
    at: str


class DeviceResultsAnswer(BaseModel):
    results: list[DeviceResultAnswer]


class TransferFailure(BaseModel):
    code: str
    message: str
    hint: str
    detail: JsonObject
    can_retry: bool


class TransferAnswer(BaseModel):
    transfer_id: str
    direction: Direction
    place: str
    created_at: str
    state: TransferState
    message: str
    done_bytes: int
    total_bytes: int | None
    job_id: str
    registered_model: str
    model_key: str
    """What POST /jobs takes, once the model is here."""
    name: str
    url: str
    """Where what was pushed can be seen."""
    error: TransferFailure | None
