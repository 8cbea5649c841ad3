"""The JSON API of the calibrations of services. OPERATIONS is its table of routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.joint_inference.access import calibrations_of, joint_of, read_service_name
from app.joint_inference.calibration.model import Calibration, State
from app.joint_inference.calibration.sweep import Setting, pareto
from app.joint_inference.calibration_upload import FIELD, receive_samples
from app.joint_inference.responses import NAMED, SERVICES
from app.kit.clock import now
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer, json_body
from app.kit.web.operations import OpenApiSchema, Operations
from app.kit.web.strict import Strict

_ALL = f"{SERVICES}/{{namespace}}/{{name}}/calibrations"
OPERATIONS = Operations(NAMED)


class CollectedCalibrationBody(Strict):
    folder: Annotated[str, Field(max_length=500)] = ""
    """Folder of labeled pictures in your data home, such as datasets/door; empty: that of its hard samples."""


_BODY: OpenApiSchema = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": [FIELD],
                "properties": {
                    FIELD: {
                        "type": "string",
                        "format": "binary",
                        "description": "a zip of pictures with their labels, or an .npz",
                    }
                },
            }
        },
        "application/json": {"schema": CollectedCalibrationBody},
    },
}


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


class CheckAnswer(BaseModel):
    upload: float
    quality: float
    low: float
    high: float
    """The quality lies between low and high with 95 % confidence, if the samples are independent of each other."""


class SettingAnswer(BaseModel):
    algorithm: str
    parameters: dict[str, str]
    upload: float
    """Share of the choosing samples that are hard with it, 0..1."""
    quality: float
    """Of the final answers to these, 0..1."""
    check: CheckAnswer | None
    """The same of the samples that had no part in the choice; null: there were too few samples."""


class WholeCalibrationAnswer(CalibrationAnswer):
    quality: str
    """What it measures; empty before the end."""
    settings: list[SettingAnswer]
    """Those that no other beats with as little upload, least upload first; empty before the end."""


class CalibrationsAnswer(BaseModel):
    calibrations: list[CalibrationAnswer]


@OPERATIONS.post(
    _ALL,
    "Calibrate a service: with a file of samples as multipart, or a folder of the data home as JSON",
    {201: CalibrationAnswer},
    more_errors=(429,),
    body=_BODY,
)
async def start_calibration(request: Request) -> Response:
    calibrations, named = calibrations_of(request), (user_of(request), *read_service_name(request))
    await run_in_threadpool(joint_of(request).services.get, *named)  # before any of the body is read
    if request.headers.get("content-type", "").startswith("multipart/"):
        async with receive_samples(request) as sent:
            made = await run_in_threadpool(calibrations.ask, *named, sent.path, sent.name, now=now())
    else:
        body = await json_body(request, CollectedCalibrationBody)
        made = await run_in_threadpool(calibrations.ask_of_collected, *named, body.folder, now=now())
    answer = CalibrationAnswer(**_describe(made))
    return json_answer(answer, 201, {"Location": answer.links["calibration"]})


@OPERATIONS.get(_ALL, "List the calibrations of a service, newest first", CalibrationsAnswer)
def list_calibrations(request: Request) -> Response:
    user, service = user_of(request), read_service_name(request)
    joint_of(request).services.get(user, *service)
    calibrations = calibrations_of(request).of_service(user, *service)
    return json_answer(CalibrationsAnswer(calibrations=[CalibrationAnswer(**_describe(one)) for one in calibrations]))


@OPERATIONS.get(
    f"{_ALL}/{{calibration_id}}",
    "Get a calibration: its progress, and at its end the settings of the Pareto front",
    WholeCalibrationAnswer,
)
def get_calibration(request: Request, calibration_id: str) -> Response:
    user = user_of(request)
    joint_of(request).services.get(user, *read_service_name(request))
    calibration, settings, quality = calibrations_of(request).get(user, calibration_id), [], ""
    if calibration.state is State.READY:
        sweep = calibrations_of(request).sweep(user, calibration_id)
        settings, quality = [_describe_setting(one) for one in pareto(sweep.settings)], sweep.kind.value
    return json_answer(WholeCalibrationAnswer(**_describe(calibration), quality=quality, settings=settings))


def _describe_setting(setting: Setting) -> SettingAnswer:
    check = None if setting.check is None else CheckAnswer(**vars(setting.check))
    return SettingAnswer(**{**vars(setting), "check": check})


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
