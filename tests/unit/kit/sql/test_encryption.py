"""What the secret key encrypts, that key alone opens, and whoever has none or another is told what to do."""

from __future__ import annotations

import pytest

from app.kit.sql import Sealer
from app.kit.sql.errors import OtherSecretKey, SecretKeyNotSet


class NotTheKey(Exception):
    """What a process of another key raises."""


def test_what_was_sealed_is_opened_by_the_same_key_and_nobody_reads_it_meanwhile() -> None:
    sealed = Sealer("the key").seal("a secret, 說")
    assert "a secret" not in sealed
    assert Sealer("the key").unseal(sealed) == "a secret, 說"
    assert Sealer("the key").seal("a secret, 說") != sealed, "equal secrets must not be seen to be equal"


def test_another_key_is_refused_with_what_to_do() -> None:
    with pytest.raises(OtherSecretKey) as refused:
        Sealer("another").unseal(Sealer("the key").seal("a secret"))
    assert "MODELMILL_SECRET_KEY" in refused.value.hint and "renew-secrets" in refused.value.hint


def test_what_was_changed_is_not_opened() -> None:
    sealed = Sealer("the key").seal("a secret")
    with pytest.raises(OtherSecretKey):
        Sealer("the key").unseal(sealed[:-6] + "AAAAA=")


def test_without_a_key_nothing_is_sealed_or_opened() -> None:
    with pytest.raises(SecretKeyNotSet) as refused:
        Sealer(None).seal("a secret")
    assert "MODELMILL_SECRET_KEY" in refused.value.hint
    with pytest.raises(SecretKeyNotSet):
        Sealer(None).unseal(Sealer("the key").seal("a secret"))


def test_what_an_older_version_left_in_plain_text_is_read() -> None:
    assert Sealer("the key").unseal("plain") == "plain"


def test_a_key_that_is_not_the_installations_is_noticed_before_anything_is_sealed_with_it() -> None:
    def refuse() -> None:
        raise NotTheKey

    sealer = Sealer("another")
    sealer.confirm = refuse
    with pytest.raises(NotTheKey):
        sealer.seal("a secret")
    sealer.trust()
    assert sealer.unseal(sealer.seal("a secret")) == "a secret"
