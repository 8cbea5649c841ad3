"""Puts training together from the settings: for the web, and for the process that schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from redis import Redis

from app.accounts.service import Accounts
from app.accounts.service.audit_log import note
from app.bootstrap.training_results import ResultConversions, ResultModels
from app.conversion.service import Conversion
from app.homes.service import Homes
from app.kit.access import EnabledOf
from app.kit.cli.command import CannotStart
from app.kit.network.addresses import host_and_port
from app.kit.queue.waker import Waker
from app.kit.sql import Database
from app.settings import Settings
from app.settings.training import RayClusterSettings
from app.training.gateway.ray_gateway import RayGateway, RayOptions
from app.training.gateway.token_file import read_token
from app.training.model import Priority
from app.training.model.queue_order import QueuePolicy
from app.training.service import ClusterPicture, CurveReader, Results, Tasks, TaskSweeps, Training, TrainingOptions
from app.training.service.boards import TaskBoards
from app.training.service.dashboards import Dashboard, Dashboards
from app.training.service.environments import Environments
from app.training.service.job_dashboard import JobDashboard
from app.training.service.scheduling import LogCopies, OnSuccess, Scheduler, SchedulerContext
from app.training.service.scheduling.secrets import DiscreetGateway, Secrets
from app.training.service.wake_up import KEY
from app.training.tensorboard.processes import TensorBoards

if TYPE_CHECKING:
    from app.model_registry.service import Models

GCS_PORT = 6379


def open_training(
    settings: Settings,
    accounts: Accounts,
    homes: Homes,
    redis: Redis,
    conversion: Conversion,
    waker: Waker,
    models: Callable[[], Models],
) -> Training:
    """Nothing connects before it is used, and Ray is not imported.

    Args:
        redis: stores the snapshot of the cluster.
        conversion: converts the result of a task.
        waker: wakes the scheduler.
        models: the model registry.
    """
    options = training_options(settings)
    jobs = ResultConversions(conversion, homes)
    picture = ClusterPicture(redis, names=options.noted_clusters)
    environments = Environments(accounts.database, accounts.users.member, note, options.clusters)
    tasks = Tasks(
        options,
        accounts.database,
        homes,
        lambda: waker.ring(KEY),
        jobs.check,
        picture.order,
        environments,
        picture.nodes,
    )
    curves = CurveReader(homes)
    sweeps = TaskSweeps(tasks, curves)
    results = Results(tasks, jobs, ResultModels(conversion, homes, models))
    dashboards = Dashboards(_open_dashboards(settings))
    job_dashboard = JobDashboard(dashboards, environments)
    boards = TaskBoards(
        tasks, TensorBoards(settings.homes, most=settings.tensorboards_max, idle_s=settings.tensorboard_idle_s)
    )
    return Training(options, tasks, results, picture, curves, sweeps, dashboards, job_dashboard, boards)


def _open_dashboards(settings: Settings) -> dict[str, Dashboard]:
    """By name, as records name clusters."""
    folder = settings.training_secrets
    further = {
        name: Dashboard(
            cluster.address, partial(read_token, folder / cluster.token) if folder and cluster.token else str
        )
        for name, cluster in settings.ray_clusters.items()
    }
    default = Dashboard(settings.ray_address, settings.ray_token.get_secret_value)
    return {"": default, **further} if settings.ray_address else {}


def open_scheduler(
    settings: Settings, database: Database, homes: Homes, redis: Redis, on_success: OnSuccess, enabled_of: EnabledOf
) -> Scheduler:
    """The one loop that runs tasks. Connects to nothing yet.

    Args:
        redis: stores the snapshot of the cluster.
        on_success: called when a task has succeeded.
        enabled_of: returns the enabled ones of these users: tasks of others do not start.

    Raises:
        CannotStart: Ray is not installed.
    """
    secrets = Secrets(settings.training_secrets)
    options = training_options(settings)
    gateway = RayGateway(
        RayOptions(
            address=settings.ray_address,
            gcs_address=settings.ray_gcs_address or _guess_gcs(settings.ray_address),
            token=settings.ray_token.get_secret_value(),
            worker_resource=settings.ray_worker_resource,
        )
    )
    context = SchedulerContext(
        options,
        database,
        homes,
        DiscreetGateway(gateway, secrets),
        LogCopies(homes.files, settings.log_bytes),
        on_success,
        enabled_of,
        Environments(database),
        secrets,
    )
    folder = settings.training_secrets
    others = [_make_further_context(context, name, cluster, folder) for name, cluster in settings.ray_clusters.items()]
    return Scheduler(context, ClusterPicture(redis, names=options.noted_clusters), others)


def _make_further_context(
    context: SchedulerContext, name: str, cluster: RayClusterSettings, folder: Path | None
) -> SchedulerContext:
    """The same for one of the further clusters. folder: with its token."""
    gateway = RayGateway(
        RayOptions(
            address=cluster.address,
            gcs_address=cluster.gcs_address or _guess_gcs(cluster.address),
            worker_resource=cluster.worker_resource,
            token_file=folder / cluster.token if folder and cluster.token else None,
        )
    )
    options = replace(
        context.options,
        homes_root=cluster.homes_root or context.options.homes_root,
        worker_resource=cluster.worker_resource,
        python=cluster.python,
    )
    return replace(context, options=options, gateway=DiscreetGateway(gateway, context.secrets), cluster=name)


def _guess_gcs(address: str) -> str:
    return host_and_port(urlsplit(address).hostname or "", GCS_PORT)


def training_options(settings: Settings) -> TrainingOptions:
    return TrainingOptions(
        is_on=bool(settings.ray_address),
        homes_root=settings.ray_homes_root or str(settings.homes),
        clusters=(settings.ray_name, *settings.ray_clusters),
        worker_resource=settings.ray_worker_resource,
        python=settings.ray_python,
        task_prefix=settings.task_prefix,
        retry_interval_s=settings.training_retry_interval_s,
        retry_most_s=settings.training_retry_most_s,
        max_running_tasks=settings.training_max_running_tasks,
        queue=QueuePolicy(settings.training_queue),
        does_backfill=settings.training_backfill,
        max_idle_s=settings.training_max_idle_s or None,
        trackers=settings.training_trackers,
        mlflow_uri=settings.mlflow_tracking_uri,
        awaited_resources=settings.training_awaited_resources,
        preempted=tuple(Priority(name) for name in settings.training_preempted),
        preemption_grace_s=settings.training_preemption_grace_s,
        most_gpus_per_user=settings.training_max_gpus_per_user or None,
        weights=read_weights(settings.training_shares),
        max_unended_per_user=settings.max_unended_tasks_per_user,
    )


def read_weights(text: str) -> dict[str, float]:
    """Returns the weights of users in `alice=2 bob=0.5`.

    Raises:
        CannotStart: The text has another form.
    """
    weights = {}
    for part in text.replace(",", " ").split():
        user, _, number = part.partition("=")
        try:
            weights[user] = float(number)
        except ValueError:
            weights[user] = math.nan
        if not user or not 0 < weights[user] < math.inf:
            raise CannotStart(
                f"MODELMILL_TRAINING_SHARES: {part} is no weight of a user", hint="Write it like alice=2 bob=0.5."
            )
    return weights
