"""Request dependencies shared by all endpoints of homes, JSON and pages. Other capabilities access a user's files
through it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from starlette.requests import Request

from app.accounts.access import accounts_of
from app.homes.errors import HomeMissing
from app.homes.files import HomeFiles
from app.homes.home_paths import HomePath, home_path_of, own_path_of
from app.homes.model import HomesOptions, Quota
from app.homes.quota import HomeUsage
from app.homes.read_only_tree import ReadOnlyTree
from app.homes.service import Homes, SftpFacts
from app.homes.sftp.backend import SftpUnavailable
from app.kit.web.auth import user_of
from app.kit.web.public_address import find_reached_host
from app.kit.web.state import FromContainer
from app.settings import settings_of


@dataclass(frozen=True)
class Home:
    """The home of the calling user."""

    homes: Homes
    user: str
    quota: Quota
    host: str | None = None
    """Name of the SFTP server, if only the request determines it."""

    @property
    def files(self) -> HomeFiles:
        return self.homes.files

    @property
    def options(self) -> HomesOptions:
        return self.homes.options

    def locate(self, text: str, *, field: str = "path") -> HomePath:
        """A readable location.

        Raises:
            PathRefused: It is not.
        """
        return home_path_of(self.options, self.user, text, field=field)

    def own(self, text: str, *, field: str = "path") -> str:
        """The path in the home of something to change.

        Raises:
            PathRefused: It may not be changed.
        """
        return own_path_of(self.options, self.user, text, field=field).inner

    def tree(self, location: HomePath) -> ReadOnlyTree:
        return self.files.tree(self.user, location)

    def logical(self, inner: str) -> str:
        return self.options.logical(self.user, inner)

    def path_of(self, location: HomePath) -> str:
        """As tasks name it, and as `locate` takes it."""
        return location.logical(self.options, self.user)

    def ssh_keys(self) -> list[str]:
        """The user's public keys.

        Raises:
            SftpOff: There is no SFTP.
            SftpUnavailable: They are not known at the moment.
        """
        keys = self.homes.sftp.facts(self.user).keys
        if keys is None:
            raise SftpUnavailable("The SFTP server does not say which keys it knows.", hint="Try again later.")
        return keys

    def sftp(self) -> SftpFacts:
        """How the user reaches the home by SFTP.

        Raises:
            SftpOff: There is no SFTP.
        """
        facts = self.homes.sftp.facts(self.user)
        return replace(facts, endpoint=replace(facts.endpoint, host=self.host)) if self.host else facts

    def usage(self) -> HomeUsage:
        return self.files.usage(self.user, quota=self.quota)


homes_of = FromContainer[Homes]("homes")


def home_of(request: Request) -> Home:
    """Created if it does not exist yet: every accepted user has one. Waits for the disk and the database."""
    home = described_home_of(request)
    try:
        with home.files.opened(home.user):
            pass
    except HomeMissing:
        home.files.create(home.user)
    return home


def described_home_of(request: Request) -> Home:
    """Returns the home for showing its location, which must work without the disk."""
    user = user_of(request)
    homes, account = homes_of(request), accounts_of(request).users.get(user)
    host = None if settings_of(request).sftp_known_host else find_reached_host(request)
    return Home(homes, user, homes.options.quota(account.quota_bytes, account.quota_files), host)
