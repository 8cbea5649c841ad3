"""The SQL store of homes: SFTP accounts, pending changes for the SFTP backend, and folders of jobs.

It contains no rules: those are in the service, the backends and the sweeper. Everything runs in the caller's
transactions.
"""

from app.homes.store.folders import (
    JobFolder,
    change_folder,
    folder_ended,
    folders_ended_before,
    folders_of,
    lock_folders,
    record_folder_use,
)
from app.homes.store.outbox import (
    PendingChange,
    add_pending,
    complete_pending,
    has_entry,
    pending,
    pending_failed,
    users_due,
)
from app.homes.store.sftp_accounts import (
    SftpAccount,
    change_account,
    delete_account,
    delete_accounts,
    facts,
    get_account,
    put_account,
    put_fact,
)
from app.homes.store.tables import door_bindings
