"""Stores users, tokens, sessions and the audit in SQL. Knows no rules: they are the service's."""

from app.accounts.store.tables import api_tokens
from app.accounts.store.tokens import (
    add_session,
    add_token,
    delete_session,
    delete_sessions_before,
    delete_sessions_of,
    fact,
    find_session,
    find_token,
    has_tokens,
    list_tokens,
    lock_token,
    remember_fact,
    revoke_token,
    token_holds,
    token_used,
    valid_made_by,
)
from app.accounts.store.users import (
    add_user,
    change_user,
    count_admin_tokens,
    count_admins,
    delete_user,
    enabled_of,
    entries,
    get_user,
    list_users,
    lock_admins,
    lock_enabled_users,
    lock_user,
    lock_users_without_quota,
    note,
    was_deleted,
)
