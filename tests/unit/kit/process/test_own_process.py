"""What a process sets for itself: its limit of open files, and what it keeps in memory."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from app.kit.process.own_process import without_collector

PROGRAM = """
import os, resource
from app.kit.process import own_process
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 128))
assert own_process.raise_limit() == 128
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
assert own_process.raise_limit() == 128
"""


def test_a_process_may_open_as_many_files_as_its_user() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


RELEASE = """
import hashlib, ssl
from pathlib import Path
from pydantic import TypeAdapter
from app.kit.process import own_process

def pages_of_files():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0])

before = pages_of_files()
own_process.SMAPS, smaps = Path("/none"), own_process.SMAPS
own_process.give_back()
own_process.SMAPS = smaps
own_process.give_back()
assert pages_of_files() < before / 2
assert TypeAdapter(dict[str, int]).validate_python({"a": "1"}) == {"a": 1}
assert ssl.create_default_context() and hashlib.sha256(b"").hexdigest().startswith("e3b0")
"""
"""The first time on a kernel without the file."""


@pytest.mark.slow
def test_what_equals_its_file_leaves_memory_and_what_the_linker_changed_stays() -> None:
    ended = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


HUGE_PAGES = """
import mmap, re, sys
from pathlib import Path
from app.kit.process import own_process

probe = mmap.mmap(-1, 2 * own_process.HUGE_PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
probe.write(bytes(len(probe)))
try:
    probe.madvise(own_process.MADV_COLLAPSE)
except OSError as error:
    sys.exit(f"no huge pages: {error}")
probe.close()
held = [bytearray(1 << 16) for _ in range(512)]
own_process.freeze_for_fork()
huge_kib = int(re.search(r"AnonHugePages: +(\\d+)", Path("/proc/self/smaps_rollup").read_text())[1])
assert huge_kib << 10 >= 512 << 15, huge_kib
assert all(each == bytes(1 << 16) for each in held)
"""


def test_what_is_held_before_a_fork_becomes_huge_pages() -> None:
    """At least half of it, and unchanged."""
    ended = subprocess.run([sys.executable, "-c", HUGE_PAGES], capture_output=True, text=True, check=False)
    if "no huge pages: " in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stderr


def test_the_garbage_collector_runs_again_after_imports_also_after_one_that_fails() -> None:
    with pytest.raises(ImportError), without_collector():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()


def test_the_garbage_collector_stays_off_where_it_was() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_freed_blocks_of_a_size_go_back_to_the_system_though_smaller_ones_follow_them() -> None:
    program = """
import ctypes
from pathlib import Path
from app.kit.process import own_process

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 1_000_000

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def written(size):
    address = libc.malloc(size)
    ctypes.memset(address, 1, size)
    return address

def grown_mb():
    libc.free(written(30 << 20))  # from now on the allocator would keep blocks of this size
    before = resident_mb()
    blocks = [(written(3 << 20), written(1000)) for _ in range(30)]
    for block, small in blocks:
        libc.free(block)
    return resident_mb() - before

print(grown_mb())
own_process.return_freed_blocks(2 << 20)
print(grown_mb())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    kept, returned = map(int, done.stdout.split())
    assert kept > 60
    assert returned < 20
