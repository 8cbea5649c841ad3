"""The page of the drift of a service: what is compared with what, and how far apart it is."""

from __future__ import annotations

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import calibrations_of, drift_of
from app.joint_inference.calibration.model import State
from app.joint_inference.drift_api import DriftBody, watch
from app.joint_inference.model.drift import LEAST_OBJECTS, THRESHOLD
from app.joint_inference.pages.drift_rows import class_rows, score_rows
from app.joint_inference.pages.service import service_of
from app.joint_inference.pages.service_list import url_of
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render

MAX_BYTES = 10_000


def drift_page(request: Request) -> Response:
    return _render_page(request)


@with_fields(MAX_BYTES, "A watch")
def change(request: Request, sent: dict[str, str]) -> Response:
    service = service_of(request)
    try:
        watch(request, DriftBody.model_validate({name: value for name, value in sent.items() if value.strip()}))
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        return _render_page(request, str(place[0]) if place else "reference", sent)
    except NotFound:
        raise
    except ModelmillError as error:
        return _render_page(request, sent=sent, error=error)
    return see_other(url_of(service.namespace, service.name, "/drift"))


def stop(request: Request) -> Response:
    service = service_of(request)
    drift_of(request).stop(user_of(request), service.namespace, service.name)
    return see_other(url_of(service.namespace, service.name, "/drift"))


def _render_page(
    request: Request, problem: str = "", sent: dict[str, str] | None = None, error: ModelmillError | None = None
) -> Response:
    """problem: the field that is wrong ("reference": the choice between them)."""
    service, user = service_of(request), user_of(request)
    calibrations = calibrations_of(request).of_service(user, service.namespace, service.name)
    drift = drift_of(request).get(user, service.namespace, service.name)
    return render(
        request,
        "joint_inference/drift.html",
        422 if problem else None,
        area="services",
        service=service,
        url=url_of(service.namespace, service.name),
        drift=drift,
        scores=score_rows(drift),
        classes=class_rows(drift),
        calibrations=[one for one in calibrations if one.state is State.READY],
        least=LEAST_OBJECTS,
        values={
            "calibration_id": "",
            "since": "",
            "until": "",
            "threshold": f"{drift.threshold if drift else THRESHOLD:g}",
            **(sent or {}),
        },
        problem=problem,
        error=error,
    )


ROUTES = [
    Route("/ui/services/{namespace}/{name}/drift", drift_page),
    Route("/ui/services/{namespace}/{name}/drift", change, methods=["POST"]),
    Route("/ui/services/{namespace}/{name}/drift/stop", stop, methods=["POST"]),
]
