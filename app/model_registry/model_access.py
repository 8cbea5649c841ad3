"""Models for others: who may use a model beside its owner, and what `owner/name` refers to.

To use is to name it in services, calibrations and stages. Its page, its files and its changes remain the owner's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from app.kit.access import AccessRule, Member
from app.kit.sql import Database
from app.model_registry import store
from app.model_registry.contract import MemberOf, Note, OnChange
from app.model_registry.model import (
    AT,
    Model,
    SharedModel,
    build_shared_name,
    is_name,
    no_such_model,
    split_name,
    split_shared,
)


@dataclass(eq=False)
class ModelAccess:
    """The access of users to models of others.

    Args:
        on_change: called after the rule of a model has changed.
        member_of: gives a user's groups.
        note: writes an entry of the audit log in the transaction: by whom, what, to what, details.
    """

    database: Database
    on_change: OnChange
    member_of: MemberOf = Member
    note: Note = lambda *_: None

    def find(self, user: str, name: str) -> Model | None:
        """Returns what `owner/name` refers to, with this as the name on its card; None: there is none that this user
        may use."""
        with self.database.read() as conn:
            return self._find_shared(conn, user, name)

    def registered(self, conn: Connection, user: str, name: str) -> Model | None:
        """As `service.Models.find`, within a transaction and without registering a job's model."""
        return store.get_model(conn, user, name) or self._find_shared(conn, user, name)

    def _find_shared(self, conn: Connection, user: str, name: str) -> Model | None:
        owner, base = split_shared(name)
        if not is_name(owner) or not is_name(split_name(base)[0]):
            return None
        model = store.get_model(conn, owner, base)
        rule = store.get_allowed(conn, owner, model.name) if model is not None else None
        if model is None or rule is None or not (user == owner or rule.admits(self.reader(user))):
            return None
        return replace(model, card=replace(model.card, name=build_shared_name(owner, model.card.name)))

    def seen_by(self, user: str) -> list[SharedModel]:
        """Returns the models of others that this user may use, by owner and name."""
        member = self.reader(user)
        with self.database.read() as conn:
            shared = [(model, rule) for model, rule in store.list_shared_models(conn) if model.owner != user]
        return [model for model, rule in shared if rule.admits(member)]

    def suggestions(self, user: str, *, most: int) -> list[str]:
        """Returns references to choose from: of the models of others, and of their tags.

        Args:
            most: number of models.
        """
        models = self.seen_by(user)[:most]
        return [name for model in models for name in (model.name, *(f"{model.name}{AT}{tag}" for tag in model.tags))]

    def rule(self, owner: str, name: str) -> AccessRule:
        """Returns who may use a model beside its owner.

        Args:
            name: of the model, plain.

        Raises:
            ModelNotFound: The owner has none of this name.
        """
        with self.database.read() as conn:
            return _require_rule(store.get_allowed(conn, owner, name), name)

    def permit(self, owner: str, name: str, rule: AccessRule) -> None:
        """Sets who may use a model beside its owner. Services of users without access keep the version that they run.
        Arguments and errors as of `rule`."""
        with self.database.write() as conn:
            if _require_rule(store.get_allowed(conn, owner, name), name) == rule:
                return
            store.put_allowed(conn, owner, name, rule)
            self.note(
                conn, owner, "model.access", f"model:{build_shared_name(owner, name)}", {"allowed": rule.to_json()}
            )
        self.on_change(owner, name)

    def admits(self, rule: AccessRule) -> Callable[[str], bool]:
        """Returns whether the rule admits a user, as a function of their name."""
        return lambda user: rule.admits(self.reader(user))

    def reader(self, user: str) -> Member:
        """The user as rules of models see them. Since a model is its owner's and not the installation's, administrators
        have to be named like everybody else."""
        return replace(self.member_of(user), is_admin=False)


def _require_rule(rule: AccessRule | None, name: str) -> AccessRule:
    if rule is None:
        raise no_such_model(name)
    return rule
