"""X.509: the installation's certificate authority, and the requests of those to whom it issues certificates.

The authority's key is derived from the installation's secret key, as that of receipts is: there is no second secret,
and all web servers are the same authority.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.kit.signatures.keys import SigningKey

if TYPE_CHECKING:
    from cryptography import x509

PURPOSE = "modelmill certificates of nodes"
SINCE, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
NAME, ORGANIZATION = "Modelmill nodes", "Modelmill"
_LIST = re.compile("-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)


class BadCertificate(ValueError):
    """This is no certificate, or no request for one; the text says why."""


@dataclass(frozen=True)
class CertificateFacts:
    """What a certificate says."""

    names: tuple[str, ...]
    """The DNS names of its subject."""
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class Request:
    """A new key, and the request to certify it; PEM."""

    key: str
    request: str


class CertificateAuthority:
    """
    Args:
        secret: the installation's secret key.
    """

    def __init__(self, secret: str) -> None:
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        self._key = SigningKey(secret, PURPOSE).private
        attributes = ((NameOID.ORGANIZATION_NAME, ORGANIZATION), (NameOID.COMMON_NAME, NAME))
        self._name = x509.Name([x509.NameAttribute(oid, text) for oid, text in attributes])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            x509.CertificateBuilder(self._name, self._name, self._key.public_key(), 1, SINCE, UNTIL)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        )
        self.certificate = _to_pem(builder.sign(self._key, None))
        """Its own, PEM; the same each time."""

    def issue(self, request: str, name: str, *, serial: int, now: datetime, until: datetime) -> str:
        """A certificate for servers and clients.

        Args:
            request: PEM; only its key counts.
            name: the DNS name that it is for.
            serial: of the certificate.
            now: from when it is valid.
            until: when it expires.

        Returns:
            PEM.

        Raises:
            BadCertificate: the request is none.
        """
        from cryptography import x509
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        try:
            parsed = x509.load_pem_x509_csr(request.encode())
            is_signed, key = parsed.is_signature_valid, parsed.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise BadCertificate("it is no request for a certificate in PEM") from error
        if not is_signed:
            raise BadCertificate("the request is not signed with its own key")
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)])
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder(self._name, subject, key, serial, now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usages, critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
            .add_extension(issuer, critical=False)
        )
        return _to_pem(builder.sign(self._key, None))

    def revocations(self, revoked: Iterable[tuple[int, datetime]]) -> str:
        """The list of revoked certificates, PEM. The same serials give the same text.

        Args:
            revoked: serial, and when it was revoked.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        entries = sorted(revoked)
        updated = max([at for _, at in entries], default=SINCE)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = x509.CertificateRevocationListBuilder(self._name, updated, UNTIL).add_extension(
            issuer, critical=False
        )
        for serial, at in entries:
            builder = builder.add_revoked_certificate(x509.RevokedCertificateBuilder(serial, at).build())
        return builder.sign(self._key, None).public_bytes(Encoding.PEM).decode()


def new_request() -> Request:
    """A key of the curve P-256, and a request for its certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Request(pem.decode(), request.public_bytes(Encoding.PEM).decode())


def facts_of(pem: str) -> CertificateFacts:
    """Returns what the first certificate in a text says.

    Raises:
        BadCertificate: The text has none in PEM.
    """
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        extensions = {type(one.value): one.value for one in certificate.extensions}
    except ValueError as error:
        raise BadCertificate("it is no certificate in PEM") from error
    names = extensions.get(x509.SubjectAlternativeName)
    return CertificateFacts(
        tuple(names.get_values_for_type(x509.DNSName)) if isinstance(names, x509.SubjectAlternativeName) else (),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def is_issued_by(pem: str, authorities: str) -> bool:
    """Returns whether the first certificate in a text was issued by one of these.

    Raises:
        BadCertificate: One of the texts has none in PEM.
    """
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        issuers = x509.load_pem_x509_certificates(authorities.encode())
    except ValueError as error:
        raise BadCertificate("it is no certificate in PEM") from error
    return any(_has_issued(issuer, certificate) for issuer in issuers)


def is_revoked(pem: str, authorities: str) -> bool:
    """Returns whether a list of revocations in the second text has the first certificate: one that its own issuer has
    signed, since serials of others are not its own.

    Raises:
        BadCertificate: The first text has no certificate in PEM, or one of the second text cannot be read.
    """
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        issuers = x509.load_pem_x509_certificates(authorities.encode())
        lists = [x509.load_pem_x509_crl(text.encode()) for text in _LIST.findall(authorities)]
    except ValueError as error:
        raise BadCertificate("it is no certificate in PEM") from error
    keys: list[Any] = [issuer.public_key() for issuer in issuers if _has_issued(issuer, certificate)]
    return any(
        one.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
        and any(_has_signed(key, one) for key in keys)
        for one in lists
    )


def _has_issued(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _has_signed(key: Any, revocations: x509.CertificateRevocationList) -> bool:
    try:
        return revocations.is_signature_valid(key)
    except TypeError:  # a key of another kind
        return False


def _to_pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
