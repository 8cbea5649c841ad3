"""A Ray cluster on this machine as parts of the stack: a head that runs no programs, and one worker that may train."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.standalone import ray_node
from app.standalone.ports import LOOPBACK, next_free_port
from app.standalone.process import Part

DASHBOARD_PORT, GCS_PORT, CLIENT_PORT = 8265, 6390, 10001
"""Ray's own ports, apart from that of the GCS, which Redis usually has; the next free ones if these are taken."""
RESOURCE = "worker_node"
STORE_BYTES = 200_000_000
HEAD, WORKER = "ray-head", "ray-worker"


def ray_settings(dashboard_port: int, gcs_port: int, token: str) -> dict[str, str]:
    """The product's settings for a cluster on this machine."""
    return {
        "MODELMILL_RAY_ADDRESS": f"http://{LOOPBACK}:{dashboard_port}",
        "MODELMILL_RAY_GCS_ADDRESS": f"{LOOPBACK}:{gcs_port}",
        "MODELMILL_RAY_TOKEN": token,
    }


@dataclass(frozen=True)
class LocalRay:
    """Ports, token and folder of the cluster; nothing is started yet."""

    dashboard_port: int
    gcs_port: int
    client_port: int
    token: str
    folder: Path
    """Of Ray's sessions; its path must be short."""

    @classmethod
    def create(cls) -> LocalRay:
        return cls(
            next_free_port(LOOPBACK, DASHBOARD_PORT),
            next_free_port(LOOPBACK, GCS_PORT),
            next_free_port(LOOPBACK, CLIENT_PORT),
            secrets.token_urlsafe(24),
            Path(tempfile.mkdtemp(prefix="mm-ray-", dir="/tmp")),
        )

    @property
    def settings(self) -> dict[str, str]:
        """The product's settings for this cluster."""
        settings = ray_settings(self.dashboard_port, self.gcs_port, self.token)
        return {**settings, "MODELMILL_RAY_WORKER_RESOURCE": RESOURCE}

    def parts(self) -> list[Part]:
        head = ray_node.head_command(
            gcs_port=self.gcs_port,
            dashboard_port=self.dashboard_port,
            client_port=self.client_port,
            folder=self.folder,
            store_bytes=STORE_BYTES,
        )
        worker = ray_node.worker_command(
            gcs_port=self.gcs_port,
            cpus=len(os.sched_getaffinity(0)),
            gpus=0,
            resource=RESOURCE,
            store_bytes=STORE_BYTES,
        )
        return [Part(HEAD, tuple(head)), Part(WORKER, tuple(worker))]

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment of both nodes."""
        return ray_node.environment(outer, self.token, self.folder)

    def remove(self) -> None:
        """Removes the folder, after both have ended."""
        shutil.rmtree(self.folder, ignore_errors=True)
