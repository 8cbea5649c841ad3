"""How passwords are hashed."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec


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
