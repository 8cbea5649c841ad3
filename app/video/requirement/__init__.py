"""The endpoints of the requirement, to the letter: /user/…, /node/…, /service/… and what the origin had beside them."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from app.video.requirement import nodes, services, users
from app.video.requirement.telling import told

ROUTES: list[BaseRoute] = [
    Route("/user/get_all_status", told(users.get_all_status), methods=["GET"]),
    Route("/user/submit_job", told(users.submit_job), methods=["POST"]),
    Route("/user/submit_job_user_constraint", told(users.submit_job_user_constraint), methods=["POST"]),
    Route("/user/sync_job_result/{job_uid}", told(users.sync_job_result), methods=["GET"]),
    Route("/user/video/{job_uid}", told(users.video), methods=["GET"]),
    Route("/node/submit_job", told(nodes.submit_job), methods=["POST"]),
    Route("/node/get_plan", told(nodes.get_plan), methods=["POST"]),
    Route("/node/update_plan", told(nodes.update_plan), methods=["POST"]),
    Route("/node/update_status", told(nodes.update_status), methods=["POST"]),
    Route("/node/sync_job_result", told(nodes.sync_job_result), methods=["POST"]),
    Route("/node/video/{job_uid}/picture", told(nodes.put_picture), methods=["POST"]),
    Route("/service/{stage}", told(services.call), methods=["POST"]),
    Route("/execute_task/{stage}", told(services.call), methods=["POST"]),
    Route("/get_service_list", told(services.get_service_list), methods=["GET"]),
    Route("/get_execute_url/{stage}", told(services.get_execute_url), methods=["GET"]),
    Route("/get_resource_info", told(services.get_resource_info), methods=["GET"]),
    Route("/get_cluster_info", told(services.get_cluster_info), methods=["GET"]),
]
