"""Which part of a stack gets which secret: none gets one that it does not use.

Workers run untrusted inputs and the SFTP server faces the network: neither signs anything, so neither has the key.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.standalone.process import Part

KEY = "MODELMILL_SECRET_KEY"
DATABASE = "MODELMILL_DATABASE_URL"
SFTP_DATABASE = "MODELMILL_SFTP_DATABASE_URL"
STORE = frozenset({"MODELMILL_REDIS_URL", "MODELMILL_S3_ACCESS_KEY", "MODELMILL_S3_SECRET_KEY"})
OF_WEB = frozenset(
    {
        KEY,
        "MODELMILL_HF_TOKEN",
        "MODELMILL_MLFLOW_TOKEN",
        "MODELMILL_SOURCE_S3_SECRET_KEY",
        "MODELMILL_METRICS_TOKEN",
        "MODELMILL_SFTPGO_PASSWORD",
        "MODELMILL_SFTPGO_API_KEY",
        "MODELMILL_RAY_TOKEN",
    }
)
OF_POSTGRES = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE"})
"""What its client library reads by itself."""
FILES = "MODELMILL_SECRETS_DIR"
OF_COMMAND = frozenset({"MODELMILL_TOKEN"})
"""Of who typed `up`: no part is that user."""
WORKER = OF_WEB | OF_POSTGRES | {DATABASE, SFTP_DATABASE}
SFTP = OF_WEB | STORE


def environment_of(part: Part, environment: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    """files: variable → value, of the settings that are files: who may not have all of them is told its own."""
    without, variables = OF_COMMAND, dict(environment)
    if part.role != "server":
        variables = {**files, **environment}
        without |= {FILES} | (WORKER if part.role == "worker" else _sftp(variables))
    return {name: value for name, value in variables.items() if name not in without}


def _sftp(variables: Mapping[str, str]) -> frozenset[str]:
    """It reads accounts: where there is no other URL for it, by everybody's."""
    return SFTP | OF_POSTGRES | {DATABASE} if variables.get(SFTP_DATABASE) else SFTP


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """What the process is told from which all others are forked: each of them could read it."""
    secret = OF_COMMAND | {FILES} | WORKER | STORE
    return {name: value for name, value in environment.items() if name not in secret}
