"""How a node of Ray is started on a host that has several: for ops/ray-local and the tests.

The head has neither CPUs nor GPUs, so no program runs there; those who may train have the resource that says so. Ports
that nobody has to know are left to the system, for two nodes on one host would take the same.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

RAY = str(Path(sys.executable).with_name("ray"))
MANY = 100
PRIVATE = ("MODELMILL_", "RAY_", "PYTEST_", "PYTHONPATH", "OTEL_")
COMMON = (
    "--block",
    "--disable-usage-stats",
    "--node-ip-address=127.0.0.1",
    "--dashboard-agent-listen-port=0",
    "--dashboard-agent-grpc-port=0",
    "--metrics-export-port=0",
    "--min-worker-port=0",
    "--max-worker-port=0",
)


def head_command(*, gcs_port: int, dashboard_port: int, client_port: int, folder: Path, store_bytes: int) -> list[str]:
    """folder: of sessions, with their sockets: its path must be short (65 bytes)."""
    return [
        RAY,
        "start",
        "--head",
        *COMMON,
        "--no-monitor",  # of an autoscaler, which has nothing to start here
        "--num-cpus=0",
        "--num-gpus=0",
        f"--port={gcs_port}",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={dashboard_port}",
        f"--ray-client-server-port={client_port}",
        f"--object-store-memory={store_bytes}",
        f"--temp-dir={folder}",
    ]


def worker_command(
    *, gcs_port: int, cpus: int, gpus: int, resource: str, store_bytes: int, others: Mapping[str, float] | None = None
) -> list[str]:
    """Waits for the head, for many minutes if need be. The GPUs are as many as is said, whether they exist or not.

    Args:
        gcs_port: Of the head.
        cpus: As many as Ray is to believe in.
        gpus: Likewise.
        resource: What it has because it trains.
        store_bytes: Of its object store.
        others: Further custom resources, a type of GPU among them.
    """
    return [
        RAY,
        "start",
        f"--address=127.0.0.1:{gcs_port}",
        *COMMON,
        "--include-log-monitor=false",  # the head's reads all logs of this host; with two, each line is told twice
        f"--num-cpus={cpus}",
        f"--num-gpus={gpus}",
        f"--resources={json.dumps({resource: MANY, **(others or {})})}",
        f"--object-store-memory={store_bytes}",
    ]


def environment(outer: Mapping[str, str], token: str) -> dict[str, str]:
    """Of a node, and so of the programs that run there: nothing that is meant for Modelmill, and its Python first."""
    kept = {name: value for name, value in outer.items() if not name.startswith(PRIVATE)}
    binaries = str(Path(RAY).parent)
    added = {"RAY_USAGE_STATS_ENABLED": "0", "PATH": f"{binaries}:{outer.get('PATH', '/usr/bin:/bin')}"}
    # Said in either case: else Ray wants the token that ~/.ray/auth_token has, if anything has ever made one there.
    added |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {"RAY_AUTH_MODE": "disabled"}
    return kept | added


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
