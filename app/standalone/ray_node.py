"""Command lines that start the nodes of a Ray cluster on this machine: a head and workers on the same host.

The head has neither CPUs nor GPUs, so no program runs there; nodes that may train have a custom resource that marks
them. Ports that nobody has to know are left to the system, since two nodes on one host would choose the same.
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
    """Returns the command of the head.

    Args:
        folder: of sessions, with their sockets: its path must be short (65 bytes).
        store_bytes: size of the object store.
    """
    return [
        RAY,
        "start",
        "--head",
        *COMMON,
        "--no-monitor",  # the autoscaler's, which has nothing to start here
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
    """Returns the command of a worker, which waits for the head, for many minutes if necessary. Its CPUs and GPUs are
    as many as given, whether they exist or not.

    Args:
        gcs_port: of the head.
        resource: custom resource of nodes that may train.
        store_bytes: size of the object store.
        others: further custom resources, such as a type of GPU.
    """
    return [
        RAY,
        "start",
        f"--address=127.0.0.1:{gcs_port}",
        *COMMON,
        "--include-log-monitor=false",  # the head's reads all logs of this host; a second one would repeat each line
        f"--num-cpus={cpus}",
        f"--num-gpus={gpus}",
        f"--resources={json.dumps({resource: MANY, **(others or {})})}",
        f"--object-store-memory={store_bytes}",
    ]


def environment(outer: Mapping[str, str], token: str, folder: Path | str) -> dict[str, str]:
    """Returns the environment of a node, and so of the programs that run there: no setting of Modelmill, and its Python
    first.

    Args:
        outer: of the process that starts the node.
        token: of the cluster; empty: it has none.
        folder: of Ray's sessions. Temporary files lie there, too: a node and its programs end without removing theirs.
    """
    kept = {name: value for name, value in outer.items() if not name.startswith(PRIVATE)}
    binaries = str(Path(RAY).parent)
    added = {"RAY_USAGE_STATS_ENABLED": "0", "PATH": f"{binaries}:{outer.get('PATH', '/usr/bin:/bin')}"}
    added["TMPDIR"] = str(folder)
    # Set in either case: otherwise Ray would require the token in ~/.ray/auth_token, if there is one.
    added |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {"RAY_AUTH_MODE": "disabled"}
    return kept | added


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
