"""A large model uploaded to the web process, against writing the same bytes straight to the same store.

Once in memory (/dev/shm), where the product's own cost shows, and once in the temporary folder on disk. All sides read
the same file from the page cache and are measured in turn, in changing order. The client sends by the kernel, so what
it costs is the loopback alone. MODELMILL_BENCH_MB sets the size, 1024 by default.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from app.bootstrap.container import assemble
from app.kit.objects import ObjectStore
from app.kit.objects.base import CHUNK_BYTES
from tests.harness.deployment import Deployment

MIB = 1 << 20
SIZE_MIB = int(os.environ.get("MODELMILL_BENCH_MB", "1024"))
ROUNDS = 5
DIRECT, MULTIPART, LINK = "straight to the store", "multipart POST", "PUT to a signed link"
BOUNDARY = "modelmill-bench-5f0c9a1e"
HEAD = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="model"; filename="model.onnx"\r\n'
    "Content-Type: application/octet-stream\r\n\r\n"
).encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()
AIM_RATIO, AIM_GROWTH_MIB = 0.7, 64
MEMORY = Path("/dev/shm")


class Pass(NamedTuple):
    """peak: resident memory of the web process at its highest, in bytes."""

    seconds: float
    peak: int


def main() -> None:
    for what, base in (("in memory", MEMORY), ("on disk", None)):
        if base is None or (base.is_dir() and shutil.disk_usage(base).free > 4 * SIZE_MIB * MIB):
            _measure(what, base)


def _measure(what: str, base: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=base) as folder:
        model = _random_file(Path(folder) / "model.onnx")
        with Deployment(Path(folder), max_model_bytes=str(2 * model.stat().st_size)) as deployment:
            web = deployment.web().pid
            store = assemble(deployment.settings()).objects
            sides: dict[str, Callable[[], float]] = {
                DIRECT: lambda: _direct(store, model),
                MULTIPART: lambda: _multipart(deployment.web_port, model),
                LINK: lambda: _signed_put(deployment.web_port, model),
            }
            idle = _memory(web, "VmRSS")
            passes: list[dict[str, Pass]] = []
            for number in range(ROUNDS + 1):  # one to warm up: fresh pages cost a virtual machine more than used ones
                order = sorted(sides, key=lambda name: (list(sides).index(name) + number) % len(sides))
                passes.append({name: _pass(sides[name], web, store) for name in order})
    _print(what, passes, idle)


def _pass(side: Callable[[], float], web: int, store: ObjectStore) -> Pass:
    _forget_peak(web)
    seconds = side()
    passed = Pass(seconds, _memory(web, "VmHWM"))
    store.delete_prefix("uploads/")
    os.sync()  # what one side left to write must not slow the next
    return passed


def _random_file(path: Path) -> Path:
    with path.open("wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(MIB))
    return path


def _direct(store: ObjectStore, model: Path) -> float:
    started = time.perf_counter()
    with model.open("rb") as file:
        store.put("uploads/bench", iter(lambda: file.read(CHUNK_BYTES), b""))
    return time.perf_counter() - started


def _multipart(port: int, model: Path) -> float:
    size = len(HEAD) + model.stat().st_size + len(TAIL)
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", "Content-Length": str(size)}
    return _send(port, "POST", "/uploads", headers, (HEAD, model, TAIL))


def _signed_put(port: int, model: Path) -> float:
    made = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    made.request("POST", "/uploads/presign", b'{"images": false}', {"Content-Type": "application/json"})
    url = urlsplit(json.loads(made.getresponse().read())["model"]["url"])
    made.close()
    return _send(
        port, "PUT", f"{url.path}?{url.query}", {"Content-Length": str(model.stat().st_size)}, (b"", model, b"")
    )


def _send(port: int, method: str, path: str, headers: dict[str, str], body: tuple[bytes, Path, bytes]) -> float:
    """Seconds from connecting to the whole answer."""
    head, file, tail = body
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(head or None)
    with file.open("rb") as source:
        connection.sock.sendfile(source)
    connection.sock.sendall(tail)
    response = connection.getresponse()
    answer = response.read()
    seconds = time.perf_counter() - started
    connection.close()
    if response.status >= 300:
        raise SystemExit(f"{method} {path} answered {response.status}: {answer[:500]!r}")
    return seconds


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM starts again at VmRSS


def _memory(pid: int, name: str) -> int:
    """A line of /proc/PID/status in bytes: VmRSS is the resident memory now, VmHWM its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"the web process {pid} is gone")


def _print(what: str, passes: list[dict[str, Pass]], idle: int) -> None:
    print(f"\nA model of {SIZE_MIB} MiB, store {what}, {ROUNDS} rounds in turn; the idle web has {idle / MIB:.0f} MiB")
    print(f"{'':22} {'MB/s':>8} {'ratio':>8} {'peak growth MiB':>16}")
    for name in (DIRECT, MULTIPART, LINK):
        measured = passes[1:]
        speed = SIZE_MIB * MIB / 1e6 / statistics.median(round_[name].seconds for round_ in measured)
        ratio = statistics.median(round_[DIRECT].seconds / round_[name].seconds for round_ in measured)
        growth = "" if name == DIRECT else f"{(max(round_[name].peak for round_ in passes) - idle) / MIB:.1f}"
        print(f"{name:22} {speed:8.0f} {ratio:8.2f} {growth:>16}")
    print(f"aim: ratio at least {AIM_RATIO}, growth below {AIM_GROWTH_MIB} MiB")
