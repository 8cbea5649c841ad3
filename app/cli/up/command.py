"""`modelmill up`: the whole stack on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.kit.cli.command import EPILOG as EXIT_CODES
from app.kit.cli.command import CannotStart
from app.kit.cli.finite_numbers import with_finite_numbers
from app.standalone.extras import ensure_extra
from app.standalone.processes import STAGES

if TYPE_CHECKING:
    from app.settings import Settings
    from app.standalone.data_folder import Lock
    from app.standalone.launch import Launch
    from app.standalone.stack import Plan

EPILOG = "Needs no root, no container and no other server. " + EXIT_CODES
WORKERS_MAX = 64
TOKEN = "MODELMILL_TOKEN"  # noqa: S105  # the variable's name


@with_finite_numbers
def up(
    host: Annotated[
        str | None, typer.Option(help="Address that the web server listens on; default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the web server; default: 8080; 0: any free port.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for all data.")] = None,
    workers: Annotated[
        str, typer.Option(help="Number of jobs that may be in each stage at the same time.")
    ] = "onnx=1,bie=1,nef=1",
    bie_workers: Annotated[
        int | None,
        typer.Option(min=0, max=WORKERS_MAX, help="Number of jobs that may be in the BIE stage at the same time."),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample/--no-sample",
            help="Convert the bundled sample after the start; with --train, also install what its training needs: "
            "PyTorch and scikit-learn.",
        ),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after the sample, with exit code 0 if it was converted and 1 if not.")
    ] = False,
    train: Annotated[
        bool,
        typer.Option(
            "--train", help="Also start a Ray cluster on this machine, for training; installs Ray if it is missing."
        ),
    ] = False,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that a worker may take to stop.")] = 10.0,
) -> None:
    """Start Valkey, the web server, the scheduler and the workers on this machine. Ctrl-C stops all of them."""
    from app.bootstrap.accounts import settings_in
    from app.standalone.stack import launch_of, locked

    if train:
        require_ray()
        if sample:
            require_sample()
    plan = _plan(host, port, data_dir, workers if bie_workers is None else f"{workers},bie={bie_workers}", grace)
    if sample or once:
        _require_token(settings_in(plan.data.root, plan.host))
    lock = locked(plan)
    try:
        launch = launch_of(plan)
        settings = settings_in(plan.data.root, plan.host)
        launch = replace(launch, after=tuple(_explain_sign_in(settings)), token=os.environ.get(TOKEN, "").strip())
    except BaseException:
        lock.release()
        raise
    flags = {"--sample": sample, "--once": once, "--train": train}
    _become(launch, lock, [flag for flag, is_set in flags.items() if is_set])


def _become(launch: Launch, lock: Lock, options: list[str]) -> NoReturn:
    """Runs the launch in this process, without what was needed to compute it, and without secrets in its environment,
    which all parts would inherit."""
    text = os.memfd_create("launch", 0)
    with os.fdopen(os.dup(text), "w", encoding="utf-8") as file:
        file.write(launch.to_json())
    os.lseek(text, 0, os.SEEK_SET)
    sys.stdout.flush()
    descriptors = (str(text), str(lock.hand_over()))
    command = [sys.executable, "-P", "-m", "app.standalone.run", *descriptors, *options]
    os.execve(sys.executable, command, dict(launch.parent))  # noqa: S606  # no shell


def require_ray() -> None:
    """Checks that a Ray cluster can be started; installs Ray if it is missing.

    Raises:
        CannotStart: It cannot.
    """
    from app.settings import load_settings

    if load_settings().ray_address:
        raise CannotStart(
            "--train starts a Ray cluster, but the settings name another one",
            hint="Leave out --train, or unset MODELMILL_RAY_ADDRESS.",
        )
    if not ensure_extra("train", "ray"):
        raise CannotStart("--train needs Ray, which could not be installed", hint="pip install 'modelmill[train]'")


def require_sample() -> None:
    """Installs what the bundled sample needs to be trained, if it is missing.

    Raises:
        CannotStart: It cannot be installed.
    """
    if not all(ensure_extra("sample", module) for module in ("torch", "sklearn")):
        raise CannotStart(
            "the sample needs PyTorch and scikit-learn to be trained, which could not be installed",
            hint="pip install 'modelmill[sample]', or start without --sample.",
        )


def _require_token(settings: Settings) -> None:
    """Checks that the sample can be converted like a user's: if accounts are required, a token is needed.

    Raises:
        CannotStart: It is missing.
    """
    if settings.demands_accounts and not os.environ.get(TOKEN):
        raise CannotStart(
            "the sample needs a token here, because the web listens beyond this machine",
            hint=f"Set {TOKEN}, or start without --sample and --once.",
        )


def _explain_sign_in(settings: Settings) -> Iterator[str]:
    """Yields how to sign in. No administrator is created by default, since a password that everybody knows is none. The
    database is prepared here, where the libraries for this are released afterwards; the web reports its problems."""
    from app.bootstrap.accounts import MIGRATIONS, open_accounts
    from app.kit.errors import ModelmillError
    from app.kit.sql.migrations import upgrade

    accounts = open_accounts(settings)
    try:
        upgrade(accounts.database, MIGRATIONS)
        if settings.demands_accounts and not accounts.users.has_admin():
            folder = f" --data-dir {shlex.quote(str(settings.data_dir))}"
            yield "Nobody can sign in yet. Make the first administrator, and a token to sign in with:"
            yield f"  modelmill users create NAME --admin{folder}\n  modelmill users token NAME{folder}"
    except ModelmillError:
        return
    finally:
        accounts.database.close()


def _plan(host: str | None, port: int | None, data_dir: Path | None, workers: str, grace_s: float) -> Plan:
    """Returns the plan; options that are not given come from the settings (the environment)."""
    from app.settings import load_settings
    from app.standalone.data_folder import DataFolder
    from app.standalone.stack import Plan

    settings = load_settings()
    root = (data_dir or settings.data_dir).expanduser().absolute()
    run = root / "run" if data_dir or settings.run_dir is None else settings.run_dir.absolute()
    return Plan(
        data=DataFolder(root, run),
        host=host or settings.host,
        port=settings.port if port is None else port,
        workers=parse_workers(workers),
        grace_s=grace_s,
    )


def parse_workers(text: str) -> dict[str, int]:
    """Reads 'onnx=1,bie=2' as processes per stage; a stage that is not named has one.

    Raises:
        CannotStart: It is not valid.
    """
    counts = {stage.value: 1 for stage in STAGES}
    for part in filter(None, text.split(",")):
        stage, _, count = (piece.strip() for piece in part.partition("="))
        if stage not in counts or not count.isdigit() or int(count) > WORKERS_MAX:
            raise CannotStart(f"--workers {text!r} is not understood", hint='Write it like "onnx=1,bie=2,nef=1".')
        counts[stage] = int(count)
    return counts
