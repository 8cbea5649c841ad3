"""What the registry needs from others: uses of models, listeners for changes, users' groups and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from app.kit.access import Member
from app.kit.text.json_values import JsonObject
from app.model_registry.model import ModelUse, Usage

UsersOf = Callable[[ModelUse], Sequence[Usage]]
"""Returns what uses a model."""
OnChange = Callable[[str, str], None]
"""Called with the owner and the plain name of a model when one of its names refers to another version, or when others
may or may no longer use it."""
MemberOf = Callable[[str], Member]
"""Returns the user with this name as a member for access rules."""
Note = Callable[[Connection, str, str, str, JsonObject], None]
"""Writes an entry of the audit log: by whom, what, to what, details."""
