"""Which passwords and public keys are accepted, and how passwords are hashed."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec

import asyncssh
import pytest

from app.homes.sftp.credentials import BadPublicKey, BadSftpPassword, check_keys, check_password

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnQEJ9Hm1ADisr/eYgot9ZvMlySex4L8+F9ituXe5vJ"


def test_passwords_are_hashed_as_it_is_documented() -> None:
    """By another copy of the module, for in that of the tests it costs nothing."""
    spec = find_spec("app.homes.sftp.credentials")
    assert spec is not None and spec.loader is not None
    credentials = module_from_spec(spec)
    spec.loader.exec_module(credentials)
    password_hash = credentials.hash_password("correct horse")
    assert password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert credentials.agrees("correct horse", password_hash)
    assert not credentials.agrees("another horse", password_hash)


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("ab3defghi", "10 to 128 characters"),
        ("ab3d" * 33, "10 to 128 characters"),
        ("ab3defghi\x07jk", "that can be typed"),
        ("abcabcabcabc", "at least four different"),
    ],
)
def test_a_password_that_is_none_is_refused(password: str, message: str) -> None:
    with pytest.raises(BadSftpPassword, match=message):
        check_password(password)


def made(algorithm: str, **options: int) -> str:
    return asyncssh.generate_private_key(algorithm, **options).export_public_key().decode()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([f"{KEY} {number}" for number in range(21)], "may have 20 keys"),
        (["-----BEGIN OPENSSH PRIVATE KEY-----"], "is a private key"),
        (["ssh-ed25519"], "no public key"),
        (["ssh-ed25519 nonsense"], "no public key"),
        ([f"{KEY}\n{KEY}"], "no public key"),
        ([f"{KEY} {'x' * 8192}"], "no public key"),
        ([made("ssh-rsa", key_size=1024)], "too weak"),
        ([made("ssh-dss")], "too weak"),
    ],
    ids=["too many", "private", "no content", "nonsense", "two lines", "too long", "short RSA", "DSA"],
)
def test_a_key_that_is_none_is_refused(keys: list[str], message: str) -> None:
    assert check_keys([f" {KEY} a\x07nn\n", KEY]) == [f"{KEY} ann", KEY]
    with pytest.raises(BadPublicKey, match=message):
        check_keys(keys)
