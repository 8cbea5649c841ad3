"""`modelmill up`: the whole stack on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.cli.command import EPILOG as EXIT_CODES
from app.kit.cli.command import CannotStart, CommandFailed, Exit
from app.standalone.processes import STAGES

if TYPE_CHECKING:
    from rich.console import Console

    from app.standalone.stack import Plan, Stack

EPILOG = "Needs no root, no container and no other server. " + EXIT_CODES
WORKERS_MAX = 64
TOKEN = "MODELMILL_TOKEN"  # noqa: S105  # the variable's name


def up(
    host: Annotated[str | None, typer.Option(help="Address the web listens on; default 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Its port; default 8080; 0: any that is free.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where everything is kept.")] = None,
    workers: Annotated[str, typer.Option(help="Worker processes per stage.")] = "onnx=1,bie=1,nef=1",
    sample: Annotated[bool, typer.Option("--sample/--no-sample", help="Convert the bundled sample first.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop after the sample: exit code 0 or 1.")] = False,
    grace: Annotated[float, typer.Option(min=0, help="Seconds a worker may take to stop.")] = 10.0,
) -> None:
    """Start Valkey, web, scheduler and workers here; Ctrl-C stops all of them."""
    from rich.console import Console

    from app.standalone.stack import running

    console = Console()
    plan = _plan(host, port, data_dir, workers, grace)
    _require_token(plan, is_needed=sample or once)
    with _stop_signals() as stopper:
        try:
            with running(plan, lambda text: _notice(console, text), on_supervisor=stopper.hurries) as stack:
                console.print(
                    f"Modelmill is up at {stack.url}   logs: {stack.data.logs}", highlight=False, soft_wrap=True
                )
                _say_how_to_sign_in(stack, host, console)
                code = _serve(stack, console, sample=sample or once, once=once)
                stopper.is_stopping = True
        except KeyboardInterrupt:
            code = Exit.CANCELLED if once else Exit.OK
    console.print("Everything is stopped.")
    raise CommandFailed(code)


def _serve(stack: Stack, console: Console, *, sample: bool, once: bool) -> Exit:
    if sample:
        from app.conversion.cli.sample import convert_sample

        token = os.environ.get(TOKEN, "").strip()
        is_done = convert_sample(stack.url, stack.data.root / "sample", console, token=token)
        if once:
            return Exit.OK if is_done else Exit.FAILED
    console.print(f"Serving at {stack.url} until Ctrl-C.", highlight=False)
    threading.Event().wait()
    return Exit.OK


def _require_token(plan: Plan, *, is_needed: bool) -> None:
    """The sample is converted as any user would: where accounts are demanded, with a token. Raises CannotStart."""
    from app.bootstrap.accounts import settings_in

    if is_needed and settings_in(plan.data.root, plan.host).demands_accounts and not os.environ.get(TOKEN):
        raise CannotStart(
            "the sample needs a token here, because the web listens beyond this machine",
            hint=f"Set {TOKEN}, or start without --sample and --once.",
        )


def _say_how_to_sign_in(stack: Stack, host: str | None, console: Console) -> None:
    """Nobody is made an administrator by default: a password that everybody knows is none."""
    from app.bootstrap.accounts import open_accounts, settings_in

    settings = settings_in(stack.data.root, host)
    if not settings.demands_accounts:
        return
    accounts = open_accounts(settings)
    if not accounts.users.has_admin():
        folder = f" --data-dir {shlex.quote(str(stack.data.root))}"
        _notice(console, "Nobody can sign in yet. Make the first administrator, and a token to sign in with:")
        _notice(console, f"  modelmill users create NAME --admin{folder}\n  modelmill users token NAME{folder}")
    accounts.database.close()


def _plan(host: str | None, port: int | None, data_dir: Path | None, workers: str, grace_s: float) -> Plan:
    """What was not said is as the settings (the environment) have it."""
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
    """'onnx=1,bie=2' → processes per stage; a stage that is not named has one. Raises CannotStart."""
    counts = {stage.value: 1 for stage in STAGES}
    for part in filter(None, text.split(",")):
        stage, _, count = (piece.strip() for piece in part.partition("="))
        if stage not in counts or not count.isdigit() or int(count) > WORKERS_MAX:
            raise CannotStart(f"--workers {text!r} is not understood", hint='Write it like "onnx=1,bie=2,nef=1".')
        counts[stage] = int(count)
    return counts


class _Stopper:
    """The first signal ends the serving; a further one takes away the grace of what is being stopped."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._supervisor: Any = None

    def hurries(self, supervisor: Any) -> None:
        self._supervisor = supervisor

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if not self.is_stopping:
            self.is_stopping = True
            raise KeyboardInterrupt
        if self._supervisor is not None:
            self._supervisor.hurry()


@contextmanager
def _stop_signals() -> Iterator[_Stopper]:
    stopper = _Stopper()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stopper) for number in numbers}
    try:
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _notice(console: Console, text: str) -> None:
    console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
    sys.stdout.flush()
