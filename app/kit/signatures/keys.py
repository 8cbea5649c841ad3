"""Ed25519 keys: the installation's own, derived from its secret key so that there is no second secret; PEM.

Workers have neither and load no cryptography library: code that needs it imports it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SEED_BYTES = 32


class NoKey(ValueError):
    """This is not an Ed25519 public key in PEM."""


@dataclass(frozen=True)
class PublicKey:
    """A public key, which verifies signatures."""

    pem: str

    def __post_init__(self) -> None:
        self._load()

    @property
    def key_id(self) -> str:
        """SHA-256 of its DER as hex digits: the key id in a signature."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        der = self._load().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether this message was signed with the matching private key."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._load().verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def _load(self) -> Ed25519PublicKey:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(self.pem.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise NoKey("it is no public key in PEM") from error
        if not isinstance(key, Ed25519PublicKey):
            raise NoKey("it is a public key of another kind than Ed25519")
        return key


class SigningKey:
    """
    Args:
        secret: The installation's secret key.
        purpose: What is signed; each purpose has its own key.
    """

    def __init__(self, secret: str, purpose: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        seed = HKDF(algorithm=SHA256(), length=SEED_BYTES, salt=None, info=purpose.encode()).derive(secret.encode())
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        pem = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.public = PublicKey(pem.decode())

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message)
