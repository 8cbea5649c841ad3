"""`python -m app.edge.video.runner.main`: runs the job in the file MODELMILL_WORK, until it is ended."""

from __future__ import annotations

import logging
import os
import sys

from starlette.applications import Starlette

from app.edge.video.runner.job import JobRunner
from app.edge.video.runner.runner_server import application
from app.edge.video.work import RunnerWork
from app.edge.work_file import path_from_environment
from app.edge.worker_server import log_as, serve
from app.kit.errors import ModelmillError
from app.kit.observability.logs import configure

logger = logging.getLogger(__name__)


def main() -> int:
    configure(*log_as(os.environ))
    try:
        path = path_from_environment()
        work = RunnerWork.read(path)
        runner = JobRunner(work, path)
    except ModelmillError as error:
        logger.error("%s %s", error.message, error.hint)
        return 2
    runner.start()
    try:
        serve(_application(runner), host=work.host, port=work.port)
    finally:
        runner.close()
    return 0


def _application(runner: JobRunner) -> Starlette:
    return application(
        runner.uid,
        lambda: runner.work.content.secret,
        runner.live,
        is_ready=lambda: runner.renderer.has_scene,
        health=runner.health,
        recording=runner.recording,
    )


if __name__ == "__main__":
    sys.exit(main())
