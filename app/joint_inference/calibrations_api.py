"""The JSON API of the calibrations of services with hard samples that were kept. OPERATIONS is its table of routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from app.joint_inference.access import calibrations_of, joint_of, read_service_name
from app.joint_inference.calibration.model import Calibration, State
from app.joint_inference.calibration.sweep import pareto
from app.joint_inference.metadata import NAME_PATTERN, NAMESPACE_PATTERN
from app.joint_inference.responses import SERVICES
from app.kit.clock import now
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.kit.web.strict import Strict

_ALL = f"{SERVICES}/{{namespace}}/{{name}}/calibrations"
OPERATIONS = Operations(
    {
        "namespace": {"type": "string", "pattern": NAMESPACE_PATTERN},
        "name": {"type": "string", "pattern": NAME_PATTERN},
    }
)


class CollectedCalibrationBody(Strict):
    folder: Annotated[str, Field(max_length=500)] = ""
    """Folder of hard samples in your data home, such as datasets/door; empty: where the service collects them."""


class CalibrationAnswer(BaseModel):
    calibration_id: str
    created_at: str
    state: State
    progress: int
    """0..100."""
    samples: str
    """Folder or file that they are from."""
    error: JsonObject
    """Of one that failed."""
    links: dict[str, str]


class SettingAnswer(BaseModel):
    algorithm: str
    parameters: dict[str, str]
    upload: float
    """Share of the samples that are hard with it, 0..1."""
    quality: float
    """Of the final answers, 0..1."""


class WholeCalibrationAnswer(CalibrationAnswer):
    quality: str
    """What it measures; empty before the end."""
    settings: list[SettingAnswer]
    """Those that no other beats with as little upload, least upload first; empty before the end."""


class CalibrationsAnswer(BaseModel):
    calibrations: list[CalibrationAnswer]


@OPERATIONS.add(
    "POST",
    _ALL,
    "Calibrate a service with the hard samples in the data home",
    {201: CalibrationAnswer},
    more_errors=(429,),
    body=CollectedCalibrationBody,
)
def start_calibration(request: Request, body: CollectedCalibrationBody) -> Response:
    made = calibrations_of(request).ask_of_collected(
        user_of(request), *read_service_name(request), body.folder, now=now()
    )
    answer = CalibrationAnswer(**_describe(made))
    return json_answer(answer, 201, {"Location": answer.links["calibration"]})


@OPERATIONS.add("GET", _ALL, "List the calibrations of a service, newest first", {200: CalibrationsAnswer})
def list_calibrations(request: Request) -> Response:
    user, service = user_of(request), read_service_name(request)
    joint_of(request).services.get(user, *service)
    calibrations = calibrations_of(request).of_service(user, *service)
    return json_answer(CalibrationsAnswer(calibrations=[CalibrationAnswer(**_describe(one)) for one in calibrations]))


@OPERATIONS.add(
    "GET",
    f"{_ALL}/{{calibration_id}}",
    "Get a calibration: its progress, and at its end the settings of the Pareto front",
    {200: WholeCalibrationAnswer},
)
def get_calibration(request: Request) -> Response:
    user, calibration_id = user_of(request), request.path_params["calibration_id"]
    joint_of(request).services.get(user, *read_service_name(request))
    calibration, settings, quality = calibrations_of(request).get(user, calibration_id), [], ""
    if calibration.state is State.READY:
        sweep = calibrations_of(request).sweep(user, calibration_id)
        settings, quality = [SettingAnswer(**vars(one)) for one in pareto(sweep.settings)], sweep.kind.value
    return json_answer(WholeCalibrationAnswer(**_describe(calibration), quality=quality, settings=settings))


def _describe(calibration: Calibration) -> JsonObject:
    request, at = calibration.request, calibration.calibration_id
    place = f"{SERVICES}/{request.namespace}/{request.name}/calibrations/{at}"
    return {
        "calibration_id": at,
        "created_at": calibration.created_at,
        "state": calibration.state,
        "progress": calibration.progress,
        "samples": request.set_name,
        "error": dict(calibration.error),
        "links": {"calibration": place, "page": f"/ui/calibrations/{at}"},
    }
