"""`modelmill users …` and `modelmill db …`: directly on the web server's database, so they work before anybody can sign
in.

Anybody who may read the data folder and the secret key is trusted. A token or password goes to stdout, without other
text if that is not a terminal; messages go to stderr.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.accounts.model import MAX_QUOTA, Role, Scope, scopes_up_to
from app.kit.cli.command import EPILOG
from app.kit.cli.service_options import DataDir
from app.kit.errors import BadInput

if TYPE_CHECKING:
    from app.accounts.model import User
    from app.accounts.service import Accounts

BY = "command line"
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
TIME = re.compile(r"(\d+)\s*([smhdwy])", re.IGNORECASE)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
PAGE_USERS = 1000

Open = Callable[[Path | None], "Accounts"]
"""Opens the accounts that are kept in this data folder (None: the settings'), brought to this program's version."""
ResetSftp = Callable[[Path | None, str], str]
"""Resets the SFTP password of this user, whose accounts are kept in this data folder. Returns the new one."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


def commands(open_accounts: Open, reset_sftp: ResetSftp) -> typer.Typer:  # one short command after another
    """Returns the commands about users, which work without the service."""
    app = typer.Typer(
        help="Users and their tokens, in the database of this installation.", no_args_is_help=True, epilog=EPILOG
    )

    @app.command()
    def create(
        name: Name,
        admin: Annotated[
            bool, typer.Option("--admin", help="Make the user an administrator, who manages users.")
        ] = False,
        quota: Annotated[str | None, typer.Option(metavar="SIZE", help="Quota of the data home, such as 10GB.")] = None,
        quota_files: Annotated[
            int | None,
            typer.Option(
                metavar="COUNT", min=0, max=MAX_QUOTA, help="Largest number of files and folders in the data home."
            ),
        ] = None,
        reuse: Annotated[bool, typer.Option("--reuse", help="Reuse the name of a deleted user.")] = False,
        data_dir: DataDir = None,
    ) -> None:
        """Create a user, and print a one-time SFTP password, which is shown only once. To sign in, the user needs a
        token."""
        role = Role.ADMIN if admin else Role.USER
        quota_bytes = None if quota is None else size_of(quota)
        _, password = open_accounts(data_dir).users.create(
            name, role, by=BY, quota_bytes=quota_bytes, quota_files=quota_files, is_reuse=reuse
        )
        _report(
            f"Created the {'administrator' if admin else 'user'} {name}. `modelmill users token {name}` makes a token."
        )
        _print_once(password, name)

    @app.command("list")
    def list_users(
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, data_dir: DataDir = None
    ) -> None:
        """List all users, by name."""
        users = _list_all(open_accounts(data_dir))
        if as_json:
            typer.echo(json.dumps([{**vars(user), "last_used_at": used} for user, used in users], indent=2))
            return
        for user, used in users:
            state = "enabled" if user.is_enabled else "disabled"
            typer.echo(f"{user.name:32}  {user.role.value:5}  {state:8}  last used {used or 'never'}")

    @app.command()
    def enable(name: Name, data_dir: DataDir = None) -> None:
        """Enable a disabled user."""
        open_accounts(data_dir).users.change(name, by=BY, is_enabled=True)
        _report(f"{name} is enabled.")

    @app.command()
    def disable(name: Name, data_dir: DataDir = None) -> None:
        """Disable a user: tokens are rejected and sessions end. Their data stays."""
        open_accounts(data_dir).users.change(name, by=BY, is_enabled=False)
        _report(f"{name} is disabled: signed out, and no token of theirs is accepted.")

    @app.command()
    def delete(name: Name, data_dir: DataDir = None) -> None:
        """Delete a user with all tokens. Running jobs continue; the page of the user cancels them first."""
        open_accounts(data_dir).users.delete(name, by=BY)
        _report(f"{name} is deleted. Jobs of theirs that are under way go on to their end.")

    _add_token_commands(app, open_accounts)
    app.command("sftp-reset")(_make_sftp_command(reset_sftp))
    _add_groups(app, open_accounts)
    return app


def _add_token_commands(app: typer.Typer, open_accounts: Open) -> None:
    @app.command()
    def token(
        name: Name,
        label: Annotated[str, typer.Option(help="What the token is for.")] = "",
        scope: Annotated[
            str | None, typer.Option(metavar="read|write|admin", help="Largest scope of the token.")
        ] = None,
        ttl: Annotated[
            str | None, typer.Option(metavar="TIME", help="Lifetime of the token, such as 12h or 90d.")
        ] = None,
        data_dir: DataDir = None,
    ) -> None:
        """Create a token and print it; it is shown only once. Needs the secret key of the web server."""
        ttl_s = None if ttl is None else seconds_of(ttl)
        accounts = open_accounts(data_dir)
        accounts.key.check()
        issued, text = accounts.tokens.issue(name, by=BY, label=label, scopes=_read_scopes(scope), ttl_s=ttl_s)
        ends = f"until {issued.expires_at}" if issued.expires_at else "until it is revoked"
        _report(
            f"Token {issued.token_id} of {name}, for {' and '.join(sorted(issued.scopes))}, {ends}. "
            "It is shown this once:"
        )
        print(text)

    @app.command()
    def revoke(
        name: Name,
        token_id: Annotated[str, typer.Argument(metavar="TOKEN", help="Id of the token: the part after mm_.")],
        with_made: Annotated[
            bool, typer.Option("--with-made", help="Also revoke the tokens that were created with it.")
        ] = False,
        data_dir: DataDir = None,
    ) -> None:
        """Revoke a token, and end the sessions that were started with it."""
        revocation = open_accounts(data_dir).tokens.revoke(name, token_id, by=BY, with_made=with_made)
        _report(f"Token {token_id} of {name} is revoked.")
        if revocation.also_revoked:
            _report(f"{_format_tokens(revocation.also_revoked, 'revoked with it')}.")
        if revocation.still_valid:
            _report(
                f"{_format_tokens(revocation.still_valid, 'still valid')}; --with-made would have revoked them, too."
            )


def _make_sftp_command(reset_sftp: ResetSftp) -> Callable[..., None]:
    def reset_sftp_password(name: Name, data_dir: DataDir = None) -> None:
        """Print a new one-time SFTP password, which is shown only once. The previous password and its sessions end."""
        _print_once(reset_sftp(data_dir, name), name)

    return reset_sftp_password


def _add_groups(app: typer.Typer, open_accounts: Open) -> None:
    @app.command()
    def groups(
        name: Name,
        group: Annotated[
            list[str] | None,
            typer.Argument(metavar="[GROUP]…", help="All groups of the user; none: removes the user from all groups."),
        ] = None,
        data_dir: DataDir = None,
    ) -> None:
        """Set the groups of a user, for `modelmill nodes allow NODE @GROUP`."""
        user = open_accounts(data_dir).users.change(name, by=BY, groups=group or [])
        _report(f"{name} is in {', '.join(user.groups) or 'no group'}.")


def size_of(text: str) -> int:
    """Reads 10GB, 1.5 GiB or 500 as bytes; without the i, units are of 1000.

    Raises:
        BadInput: It is no size, or one above MAX_QUOTA.
    """
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text!r} is no size.", hint="Write it like 10GB, 500MB or 2TiB.")
    base = 1024 if match[3] else 1000
    size = float(match[1]) * base ** " KMGT".index(match[2].upper() or " ")
    if size > MAX_QUOTA:
        raise BadInput(f"{text:.40} is too large.", hint="At most 1048576TiB; 0 is no limit.")
    return int(size)


def seconds_of(text: str) -> int:
    """Reads 12h or 90d as seconds.

    Raises:
        BadInput: It is no duration.
    """
    match = TIME.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text!r} is no time.", hint="Write it like 30m, 12h, 90d or 1y.")
    return int(match[1]) * SECONDS[match[2].lower()]


def _read_scopes(most: str | None) -> list[Scope] | None:
    try:
        return None if most is None else scopes_up_to(most)
    except ValueError:
        raise BadInput(f"There is no scope {most!r}.", hint="The scopes are read, write and admin.") from None


def _list_all(accounts: Accounts) -> list[tuple[User, str | None]]:
    users: list[tuple[User, str | None]] = []
    while page := accounts.users.page(after=users[-1][0].name if users else "", limit=PAGE_USERS):
        users += page
    return users


def _format_tokens(token_ids: Sequence[str], state: str) -> str:
    tokens = "1 token that it made is" if len(token_ids) == 1 else f"{len(token_ids)} tokens that it made are"
    return f"{tokens} {state}: {', '.join(token_ids)}"


def _print_once(password: str | None, name: str) -> None:
    if password is None:  # this installation has no SFTP
        return
    _report(f"The one-time SFTP password of {name}, to be changed at the first log-in. It is shown this once:")
    print(password)


def _report(text: str) -> None:
    print(f"modelmill: {text}", file=sys.stderr)
