"""The JSON API of exchange: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

import shutil
from dataclasses import asdict

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from app.exchange import schemas
from app.exchange.access import exchange_of, packs_of
from app.exchange.model import TRANSFER, Transfer
from app.exchange.pack.device_results import DeviceResult
from app.kit.clock import now, to_text
from app.kit.network.bearer import bearer_of
from app.kit.web.auth import caller_of, user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.kit.web.public_address import rewrite_link
from app.settings import settings_of

ZIP = "application/zip"
OPERATIONS = Operations(
    {"transfer_id": {"type": "string", "format": "uuid"}, "job_id": {"type": "string", "format": "uuid"}}
)


@OPERATIONS.post(
    "/transfers",
    "Fetch a model from a hub, a registry, a bucket or a URL",
    {202: schemas.TransferAnswer},
    more_errors=(429,),
    creates_later=True,
)
def fetch_model(request: Request, body: schemas.NewFetch) -> Response:
    return _answer_accepted(exchange_of(request).fetch(user_of(request), body.source, now=now()))


@OPERATIONS.post(
    "/jobs/{job_id}/exports",
    "Push the results of a job to MLflow or to a hub",
    {202: schemas.TransferAnswer},
    more_errors=(429,),
    creates_later=True,
)
def export_job(request: Request, job_id: str, body: schemas.NewExport) -> Response:
    transfer = exchange_of(request).push(
        user_of(request), job_id, body.target, registered_model=body.registered_model, now=now()
    )
    return _answer_accepted(transfer)


@OPERATIONS.get("/transfers/{transfer_id}", "Get the state of a transfer", schemas.TransferAnswer)
def get_transfer(request: Request, transfer_id: str) -> Response:
    return _answer_transfer(exchange_of(request).get(user_of(request), transfer_id))


@OPERATIONS.get(
    "/jobs/{job_id}/pack",
    "Download what is needed to run the model of a job elsewhere: NEF, preprocessing, test inputs and smoke.py",
    (ZIP,),
    more_errors=(400, 422),
)
def get_pack(request: Request, job_id: str) -> Response:
    caller = caller_of(request)
    url = rewrite_link(request, settings_of(request).web_url) if caller.may_write else ""
    path = packs_of(request).kept(caller.user, job_id, url=url)
    clean_up = BackgroundTask(shutil.rmtree, path.parent, ignore_errors=True)
    return FileResponse(path, media_type=ZIP, filename=f"modelmill-{job_id[:8]}.zip", background=clean_up)


@OPERATIONS.post(
    "/device-results/{job_id}",
    "Report the results of the tests of a pack on a device, with the token in the pack",
    {201: schemas.DeviceResultAnswer},
    errors=(400, 403, 404, 413, 422, 503),
    callers=(),
)
def add_device_result(request: Request, job_id: str, body: schemas.NewDeviceResult) -> Response:
    """By the token in a pack, which is good for its job alone."""
    result = DeviceResult(**body.model_dump(), at=to_text(now()))
    packs_of(request).device_results.add(job_id, bearer_of(request.headers), result)
    return json_answer(schemas.DeviceResultAnswer(**asdict(result)), 201)


@OPERATIONS.get(
    "/jobs/{job_id}/device-results",
    "List the results that devices have reported for packs of a job, newest first",
    schemas.DeviceResultsAnswer,
)
def list_device_results(request: Request, job_id: str) -> Response:
    results = packs_of(request).device_results.of(user_of(request), job_id)
    answers = [schemas.DeviceResultAnswer(**asdict(result)) for result in results]
    return json_answer(schemas.DeviceResultsAnswer(results=answers))


def _answer_accepted(transfer: Transfer) -> Response:
    return _answer_transfer(transfer, 202, {"Location": f"/transfers/{transfer.transfer_id}"})


def _answer_transfer(transfer: Transfer, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_answer(schemas.TransferAnswer.model_validate(TRANSFER.write(transfer)), status, headers)
