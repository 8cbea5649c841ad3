"""The verbs of data homes: files, the rules for paths in tasks, the SFTP account, how long the folders of jobs stay."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime

from app.homes.errors import HomeMissing, disk_errors
from app.homes.files import HomeFiles
from app.homes.model import USERS, HomesOptions, Kind
from app.homes.path_rules import PathRules
from app.homes.retention import Folders, RetentionSweeper
from app.homes.rooted_directory import RootedDirectory
from app.homes.service.outbox import Outbox, listener
from app.homes.service.sftp_accounts import SftpAccounts, SftpFacts
from app.homes.sftp.backend import SftpBackend
from app.kit.errors import BadInput, ModelmillError
from app.kit.sql import Database

logger = logging.getLogger(__name__)


class Homes:
    """backend None: this installation has no SFTP."""

    def __init__(self, options: HomesOptions, database: Database, backend: SftpBackend | None) -> None:
        self.options = options
        self.files = HomeFiles(options)
        self.rules = PathRules(options)
        self.outbox = Outbox(database, backend, self.files)
        self.sftp = SftpAccounts(self.outbox)
        self.folders = Folders(database, options)
        self._sweeper = RetentionSweeper(database, options)

    def clear(self, now: datetime) -> None:
        """Move and delete what is due: folders of ended jobs, removed files, uploads that broke off. Repeatable."""
        self._sweeper.sweep(now)
        for user in self._users():
            try:
                with suppress(HomeMissing):
                    self.files.sweep(user, now=now)
            except BadInput:
                continue  # not a folder that we made
            except ModelmillError as error:
                logger.warning("The home of %s was not cleared: %s", user, error.message)

    def _users(self) -> list[str]:
        root = self.options.root
        if not root.is_dir():
            return []
        with disk_errors(str(root)), RootedDirectory.at(root) as directory, suppress(FileNotFoundError):
            return [name.name for name in directory.names(USERS) if name.kind is Kind.FOLDER]
        return []
