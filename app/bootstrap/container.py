"""Puts the parts together from the settings, the same for the web, the workers and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from dramatiq import Middleware
from redis import Redis

from app.bootstrap.conversion import open_conversion
from app.conversion.service import Conversion
from app.conversion.service.dispatch import PREFETCH
from app.conversion.stages.reuse import StageReuse
from app.conversion.stages.runner import StageRunner
from app.conversion.store import JobStore
from app.conversion.toolchains import libraries
from app.kit.objects import FilesystemOptions, ObjectStore, S3Options, open_store
from app.kit.objects.timed import TimedStore
from app.kit.observability import tracing
from app.kit.observability.metrics import MetricsExporter
from app.kit.observability.trace_propagation import TraceMessages
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import connect, connect_to_look, make_broker
from app.kit.queue.messages import Message
from app.kit.queue.waker import Waker
from app.kit.sandbox.runner import Sandbox
from app.kit.web.state import AppState
from app.settings import Settings

if TYPE_CHECKING:
    from app.accounts.authenticator import AccountAuthenticator
    from app.accounts.service import Accounts
    from app.bootstrap.node_sinks import NodeSinks
    from app.conversion.service.archive import Archive
    from app.demonstrations.service import Demonstrations
    from app.exchange.pack.service import Packs
    from app.exchange.service import Exchange
    from app.homes.service import Homes
    from app.joint_inference.calibration.drift_monitor import DriftMonitor
    from app.joint_inference.calibration.service import Calibrations
    from app.joint_inference.service import Joint
    from app.kit.sql import Database
    from app.model_registry.service import Models
    from app.nodes.service import Nodes
    from app.notifications.service import Notifications
    from app.results.service import ResultServices
    from app.shares.service import Shares
    from app.sweeps.service import Sweeps
    from app.training.service import Training
    from app.video.service import Video


@dataclass(frozen=True)
class Container:
    """All services of a process, typed. A property is built on first use, without connecting it to anything:
    `app.bootstrap.events` has the listeners.

    So each role builds only what it uses. The web application uses everything; the stages' workers use none of the
    properties and need neither SQL nor the time to import it; controllers use those of their actors. A node's agent has
    its own root, `app.bootstrap.edge`.
    """

    settings: Settings
    redis: Redis
    look: Redis
    """The records, for status reports: see connect_to_look."""
    look_at_queues: Redis
    """The queues, likewise."""
    exporter: MetricsExporter
    broker: BlockingBroker
    objects: ObjectStore
    sandbox: Sandbox
    store: JobStore
    conversion: Conversion
    stages: StageRunner
    waker: Waker

    @cached_property
    def accounts(self) -> Accounts:
        from app.bootstrap.accounts import open_accounts
        from app.bootstrap.events import account_listeners, active_work, changes_committed

        def wake(entry_id: int) -> None:
            self.waker.send(Message.APPLY_DOOR, entry_id=entry_id)

        return open_accounts(
            self.settings,
            on_change=account_listeners(self.settings, wake),
            works=active_work(self),
            announce=lambda keys: changes_committed(self.waker, keys),
        )

    @property
    def database(self) -> Database:
        return self.accounts.database

    @cached_property
    def authenticator(self) -> AccountAuthenticator:
        from app.accounts.authenticator import AccountAuthenticator
        from app.accounts.login_throttle import LoginThrottle

        local_user = None if self.settings.demands_accounts else self.settings.local_user
        return AccountAuthenticator(
            self.accounts, LoginThrottle(self.look), local_user=local_user, node_of=self.nodes.authenticate
        )

    @cached_property
    def homes(self) -> Homes:
        from app.bootstrap.homes import open_homes

        return open_homes(self.settings, self.database)

    @cached_property
    def archive(self) -> Archive:
        from app.bootstrap.archive import open_archive

        return open_archive(self.settings, self.accounts, self.store, self.objects, self.conversion)

    @cached_property
    def training(self) -> Training:
        from app.bootstrap.training import open_training

        return open_training(
            self.settings, self.accounts, self.homes, self.redis, self.conversion, self.waker, lambda: self.models
        )

    @cached_property
    def nodes(self) -> Nodes:
        from app.bootstrap.events import node_listeners
        from app.bootstrap.nodes import open_nodes

        return open_nodes(self.settings, self.accounts, self.waker, node_listeners(self))

    @cached_property
    def models(self) -> Models:
        from app.accounts.service.audit_log import note
        from app.bootstrap.events import model_changed, users_of_model
        from app.model_registry.service import Models

        return Models(
            self.database,
            self.objects,
            self.conversion,
            partial(users_of_model, self),
            partial(model_changed, self),
            self.accounts.users.member,
            note,
        )

    @cached_property
    def exchange(self) -> Exchange:
        from app.bootstrap.exchange import open_exchange

        return open_exchange(self.settings, self.conversion, self.redis, self.broker)

    @cached_property
    def packs(self) -> Packs:
        from app.exchange.pack.service import Packs

        return Packs(self.settings, self.conversion)

    @cached_property
    def joint(self) -> Joint:
        from app.bootstrap.home_folders import HomeFolders
        from app.bootstrap.joint_inference import open_joint

        return open_joint(
            self.database,
            self.homes,
            self.nodes,
            self.models,
            self.objects,
            self.redis,
            self.broker,
            self.waker,
            HomeFolders(self.homes, self.accounts.users),
            self.results.rules,
        )

    @cached_property
    def calibrations(self) -> Calibrations:
        from app.bootstrap.home_folders import HomeFolders
        from app.bootstrap.joint_inference import open_calibrations

        return open_calibrations(
            self.settings,
            self.database,
            self.objects,
            self.models,
            self.joint.services,
            self.sandbox,
            self.broker,
            HomeFolders(self.homes, self.accounts.users),
        )

    @cached_property
    def drift(self) -> DriftMonitor:
        from app.joint_inference.calibration.drift_monitor import DriftMonitor

        return DriftMonitor(self.joint.services, self.calibrations)

    @cached_property
    def results(self) -> ResultServices:
        from app.bootstrap.home_folders import HomeFolders
        from app.bootstrap.results import open_results

        return open_results(
            self.settings,
            self.database,
            HomeFolders(self.homes, self.accounts.users),
            self.objects,
            self.waker,
            self.node_sinks,
            enabled_of=self.accounts.users.enabled_of,
        )

    @cached_property
    def node_sinks(self) -> NodeSinks:
        from app.bootstrap.node_sinks import NodeSinks

        return NodeSinks(self.database, lambda: self.nodes, self.accounts.users.enabled_of)

    @cached_property
    def video(self) -> Video:
        from app.bootstrap.video import open_video

        return open_video(
            self.settings,
            self.database,
            self.nodes,
            self.models,
            self.objects,
            self.redis,
            self.waker,
            self.results.rules,
        )

    @cached_property
    def notifications(self) -> Notifications:
        from app.bootstrap.notifications import open_notifications

        return open_notifications(self.settings, self.database, enabled_of=self.accounts.users.enabled_of)

    @cached_property
    def shares(self) -> Shares:
        from app.shares.service import Shares

        return Shares(self.database, self.conversion, enabled_of=self.accounts.users.enabled_of)

    @cached_property
    def sweeps(self) -> Sweeps:
        from app.sweeps.service import Sweeps

        return Sweeps(self.database, self.conversion, wake=lambda: self.waker.send(Message.SUBMIT_SWEEPS))

    @cached_property
    def demonstrations(self) -> Demonstrations:
        from app.demonstrations.service import CHANNEL, Demonstrations

        return Demonstrations(
            self.settings.run / "demonstrations",
            is_offered=not self.settings.demands_accounts,
            run=None if self.settings.ray_address else self.settings.run,
            announce=lambda: self.waker.notify(CHANNEL),
        )

    def prepare(self) -> None:
        """Prepares the web server: see prepare_accounts."""
        from app.bootstrap.accounts import prepare_accounts

        prepare_accounts(self.accounts, self.settings)

    def close(self) -> None:
        if "accounts" in vars(self):
            self.database.close()
        if "demonstrations" in vars(self):
            self.demonstrations.close()
        if "training" in vars(self):
            self.training.boards.processes.close()
        self.sandbox.close()
        self.store.records.close()
        self.redis.close()
        self.look.close()
        self.look_at_queues.close()
        self.broker.close()


container_of: AppState[Container] = AppState("container")
"""Of the web application."""


def assemble(settings: Settings, *, middleware: list[Middleware] | None = None) -> Container:
    """middleware: for the broker of a process that runs actors."""
    client = connect(settings.redis_url)
    look = connect_to_look(settings.redis_url)
    traces: list[Middleware] = [TraceMessages()] if tracing.is_on() else []
    broker = make_broker(settings.queues, prefetch=PREFETCH, middleware=[*traces, *(middleware or [])])
    objects = TimedStore(_store(settings))
    ours = (settings.data_dir, settings.work, settings.run, settings.objects, settings.homes)
    sandbox = Sandbox(
        at_once=settings.checks_at_once, keep_out=ours, libraries=libraries.CHECKS, idle_s=settings.sandbox_idle_s
    )
    store = JobStore(client, record_ttl_s=settings.record_ttl_s, live_log_bytes=settings.live_log_bytes)
    conversion = open_conversion(settings, client, broker, objects, sandbox, store)
    reuse = StageReuse(settings, conversion.cache, conversion.cache_figures, conversion.work_leases)
    stages = StageRunner(settings, objects, sandbox, reuse, conversion.dispatch.report)
    return Container(
        settings,
        client,
        look,
        connect_to_look(settings.queues),
        MetricsExporter(look),
        broker,
        objects,
        sandbox,
        store,
        conversion,
        stages,
        Waker(client, broker),
    )


def _store(settings: Settings) -> ObjectStore:
    if settings.store == "filesystem":
        secret = settings.secret_key.get_secret_value()
        return open_store(FilesystemOptions(settings.objects, public_url=settings.web_url, secret=secret))
    return open_store(
        S3Options(
            endpoint=settings.s3_endpoint,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key.get_secret_value(),
            bucket=settings.s3_bucket,
            region=settings.s3_region,
            secure=settings.s3_secure,
            public_endpoint=settings.s3_public_endpoint,
        )
    )
