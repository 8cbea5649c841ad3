"""What the deployment files say, read by the tools of each kind, in one form for all tests."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.paths import REPOSITORY

DEPLOY = REPOSITORY / "ops" / "deploy"
COMPOSE = DEPLOY / "compose"
KUBERNETES = DEPLOY / "kubernetes"
SYSTEMD = DEPLOY / "systemd"
DOCKERFILES = sorted((DEPLOY / "images").glob("Dockerfile*"))
STAGES = ("onnx", "bie", "nef")
PODMAN_COMPOSE = """
import podman_compose
fill_in = podman_compose.var_interpolate
podman_compose.var_interpolate = lambda value, env: fill_in(value, env) if "$" in value else value
podman_compose.main()
"""
"""As the command, which makes classes for each text that it fills in, also for those without a variable."""
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def command(name: str) -> str:
    """A program that was installed beside this interpreter."""
    return str(Path(sys.executable).with_name(name))


def compose(folder: Path, *names: str, **variables: str) -> dict[str, Any]:
    """The files merged and their variables filled in. podman-compose does it; it only asks whether Podman is there."""
    podman = folder / "podman"
    podman.write_text("#!/bin/sh\necho podman version 5.0.0\n")
    podman.chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    files = [part for name in names or ("compose.yaml",) for part in ("-f", name)]
    ran = subprocess.run(
        [sys.executable, "-c", PODMAN_COMPOSE, *files, "config"],
        cwd=COMPOSE,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    rendered: dict[str, Any] = yaml.safe_load(ran.stdout)
    return rendered


def kubernetes_sources() -> list[dict[str, Any]]:
    """The resources as they stand in the files, without kustomize; patches are left out."""
    paths = [*(KUBERNETES / "base").glob("*.yaml"), KUBERNETES / "keda" / "scaledobject.yaml"]
    documents = [document for path in sorted(paths) for document in yaml.safe_load_all(path.read_text())]
    return [document for document in documents if document["kind"] != "Kustomization"]


OLDEST_KUSTOMIZE = (4, 5)
"""Older ones know neither the targets of our patches nor merged settings: Debian 12 has kubectl 1.20 with 2.0.3."""


def require_kustomize() -> None:
    """Skips where no kubectl can render the overlays."""
    if not shutil.which("kubectl"):
        pytest.skip("needs kubectl, which renders the overlays; Debian 12 has none that is new enough")
    ran = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, check=False)
    version = re.search(r"Kustomize Version: v(\d+)\.(\d+)", ran.stdout)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_KUSTOMIZE:
        pytest.skip("needs a kubectl of 1.24 or newer: this one's kustomize does not know `patches:` as we use them")


def rendered(folder: str) -> list[dict[str, Any]]:
    """The resources as kustomize makes them."""
    require_kustomize()
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    ran = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / folder)], env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return list(yaml.safe_load_all(ran.stdout))


def named(resources: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(it for it in resources if (it["kind"], it["metadata"]["name"]) == (kind, name))


def pods(resources: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Name of a workload → its pod's spec."""
    return {
        it["metadata"]["name"]: it["spec"]["template"]["spec"]
        for it in resources
        if it["kind"] in {"Deployment", "StatefulSet"}
    }


def env_of(pod: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in pod["containers"][0].get("env", []) if "value" in item}


def unit(path: Path) -> configparser.RawConfigParser:
    """A unit file. Settings that stand there several times are lines of one value."""

    class Several(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            if isinstance(value, list) and key in self:
                self[key].extend(value)
            else:
                super().__setitem__(key, value)

    parser = configparser.RawConfigParser(dict_type=Several, strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text())
    return parser
