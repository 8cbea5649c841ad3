"""Which part of a stack gets which secrets: only those that it uses.

Workers run untrusted inputs and the SFTP server faces the network; neither signs anything, so neither has the key.
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
"""Variables that PostgreSQL's client library reads by itself."""
FILES = "MODELMILL_SECRETS_DIR"
OF_COMMAND = frozenset({"MODELMILL_TOKEN"})
"""Secrets of the user who typed `up`: no part acts for that user."""
WORKER = OF_WEB | OF_POSTGRES | {DATABASE, SFTP_DATABASE}
SFTP = OF_WEB | STORE


def environment_of(part: Part, environment: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a part.

    Args:
        environment: the complete one.
        files: value by variable, for settings that are files; a part that may not have all of them gets only its own.
    """
    without, variables = OF_COMMAND, dict(environment)
    if part.role != "server":
        variables = {**files, **environment}
        without |= {FILES} | (WORKER if part.role == "worker" else _list_sftp_variables(variables))
    return {name: value for name, value in variables.items() if name not in without}


def _list_sftp_variables(variables: Mapping[str, str]) -> frozenset[str]:
    """Returns the variables of the SFTP server, which reads accounts: if there is no separate URL for it, it uses the
    common one."""
    return SFTP | OF_POSTGRES | {DATABASE} if variables.get(SFTP_DATABASE) else SFTP


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of the process from which all others are forked, since each of them could read it."""
    secret = OF_COMMAND | {FILES} | WORKER | STORE
    return {name: value for name, value in environment.items() if name not in secret}
