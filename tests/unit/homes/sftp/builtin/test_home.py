"""What an SFTP session may do in a home, below SSH: confinement, quotas, descriptors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncssh
import pytest

from app.homes.files import HomeFiles
from app.homes.model import HomesOptions, Quota
from app.homes.quota import UsageTracker
from app.homes.sftp.builtin.home import OPEN_FILES, SessionQuota, SftpHome, inner_path, to_shown_path
from app.homes.sftp.builtin.session import open_flags, with_reason
from tests.harness.name_swap import outcomes, swapping

SECRET = b"of somebody else"
CREATE = os.O_WRONLY | os.O_CREAT
LIMIT = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = HomeFiles(HomesOptions(tmp_path))
    for user in ("alice", "bob"):
        files.create(user)
    (tmp_path / "users" / "bob" / "datasets" / "file").write_bytes(SECRET)
    return tmp_path


@pytest.fixture
def home(root: Path) -> Iterator[SftpHome]:
    made = SftpHome(root, "users/alice", SessionQuota("alice", Quota(LIMIT), UsageTracker(60)))
    yield made
    made.close()


@pytest.fixture
def alice(root: Path) -> Path:
    return root / "users" / "alice"


@pytest.mark.parametrize(
    ("path", "inner", "shown"),
    [
        (b"", "", b"/"),
        (b".", "", b"/"),
        (b"/", "", b"/"),
        (b"/datasets/", "datasets", b"/datasets"),
        (b"datasets/../models//x/.", "models/x", b"/models/x"),
        (b"\xff/x", "\udcff/x", b"/\xff/x"),
    ],
)
def test_a_path_is_read_as_inside_the_home(path: bytes, inner: str, shown: bytes) -> None:
    assert inner_path(path) == inner
    assert to_shown_path(path) == shown
    with pytest.raises(OSError, match="NUL byte"):
        inner_path(path + b"/a\0b")


@pytest.mark.parametrize(
    ("path", "inner"),
    [(b"..", ""), (b"/..", ""), (b"datasets/../..", ""), (b"../bob/datasets/file", "bob/datasets/file")],
)
def test_above_the_home_there_is_the_home(path: bytes, inner: str, home: SftpHome) -> None:
    assert inner_path(path) == inner
    assert not to_shown_path(path).startswith(b"/..")
    if inner:
        with pytest.raises(FileNotFoundError):
            home.open(path, os.O_RDONLY)


def test_a_link_swapped_in_between_check_and_use_never_opens_what_is_outside(
    home: SftpHome, alice: Path, root: Path
) -> None:
    (alice / "datasets" / "mine").mkdir()
    (alice / "datasets" / "mine" / "file").write_bytes(b"mine")
    (alice / "datasets" / "link").symlink_to(root / "users" / "bob" / "datasets")

    def look() -> bytes:
        try:
            file = home.open(b"datasets/mine/file", os.O_RDONLY)
        except OSError as error:
            return errno.errorcode[error.errno or 0].encode()
        try:
            return os.pread(file.fd, 100, 0)
        finally:
            home.close_file(file)

    with swapping(alice / "datasets" / "mine", alice / "datasets" / "link"):
        seen = outcomes(look, at_least=2000, kinds=2)
    assert b"mine" in seen
    assert SECRET not in seen


def test_a_link_swapped_in_never_has_anything_made_removed_or_renamed_outside(
    home: SftpHome, alice: Path, root: Path
) -> None:
    (alice / "datasets" / "mine").mkdir()
    (alice / "datasets" / "link").symlink_to(root / "users" / "bob" / "datasets")
    with swapping(alice / "datasets" / "mine", alice / "datasets" / "link"):
        for number in range(500):
            for work in (
                lambda n=number: home.make_folder(b"datasets/mine/made%d" % n),
                lambda: home.remove(b"datasets/mine/file"),
                lambda: home.rename(b"datasets/mine/file", b"models/file", replace=True),
                lambda n=number: home.close_file(home.open(b"datasets/mine/new%d" % n, CREATE)),
                lambda: home.set_times(b"datasets/mine/file", (1, 1)),
            ):
                with suppress(OSError):
                    work()
    there = root / "users" / "bob" / "datasets"
    assert [path.name for path in there.iterdir()] == ["file"]
    assert (there / "file").read_bytes() == SECRET
    assert (there / "file").stat().st_mtime > 1


@pytest.mark.parametrize("what", ["fifo", "folder"])
def test_only_files_are_opened_and_none_is_waited_for(home: SftpHome, alice: Path, what: str) -> None:
    os.mkfifo(alice / "datasets" / "fifo")
    (alice / "datasets" / "folder").mkdir()
    for flags in (os.O_RDONLY, os.O_RDWR):
        with pytest.raises(OSError, match=r"directory|device"):
            home.open(b"datasets/" + what.encode(), flags)
    if what == "fifo":
        with pytest.raises(PermissionError):
            home.set_times(b"datasets/fifo", (1, 1))


# --- the quota --------------------------------------------------------------------------------------
def write(home: SftpHome, path: bytes, data: bytes, offset: int = 0, flags: int = CREATE) -> None:
    file = home.open(path, flags)
    try:
        file.write(data, offset)
    finally:
        home.close_file(file)


def is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EDQUOT


def test_the_quota_counts_what_files_reach_and_not_what_is_written_twice(home: SftpHome) -> None:
    for _ in range(5):
        write(home, b"datasets/a", b"x" * 600)
    with pytest.raises(OSError, check=is_full):
        write(home, b"datasets/b", b"x" * 600)
    write(home, b"datasets/c", b"x" * 400)


def test_a_hole_counts_as_what_it_pretends_to_be(home: SftpHome) -> None:
    with pytest.raises(OSError, check=is_full):
        write(home, b"datasets/a", b"x", offset=10**12)
    with pytest.raises(OSError, check=is_full):
        home.resize(b"datasets/a", 10**12)


def test_appending_counts(home: SftpHome) -> None:
    write(home, b"datasets/a", b"x" * 600)
    with pytest.raises(OSError, check=is_full):
        write(home, b"datasets/a", b"x" * 600, flags=os.O_WRONLY | os.O_APPEND)


@pytest.mark.parametrize("how", ["truncated", "removed"])
def test_what_is_given_up_may_be_used_again(home: SftpHome, how: str) -> None:
    write(home, b"datasets/a", b"x" * 900)
    if how == "removed":
        home.remove(b"datasets/a")
    write(home, b"datasets/a", b"x" * 900, flags=CREATE | os.O_TRUNC)


def test_the_space_is_the_quota_s(home: SftpHome) -> None:
    write(home, b"datasets/a", b"x" * 600)
    home.quota.usage.forget("alice")
    assert home.space() == (LIMIT, 600)


# --- descriptors ------------------------------------------------------------------------------------
def test_a_session_has_so_many_files_open_and_closes_them_all(home: SftpHome) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for number in range(OPEN_FILES):
        home.open(b"datasets/%d" % number, CREATE)
    with pytest.raises(OSError, match="files open"):
        home.open(b"datasets/more", CREATE)
    for file in list(home._files):
        home.close_file(file)
        home.close_file(file)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    home.open(b"datasets/more", CREATE)


def test_what_sftp_asks_for_is_what_the_kernel_is_told() -> None:
    put = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_TRUNC
    assert open_flags(put) == os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    assert open_flags(asyncssh.FXF_READ) == os.O_RDONLY
    assert open_flags(asyncssh.FXF_READ | asyncssh.FXF_TRUNC | asyncssh.FXF_CREAT) == os.O_RDONLY
    assert open_flags(asyncssh.FXF_READ | asyncssh.FXF_WRITE | asyncssh.FXF_EXCL) == os.O_RDWR | os.O_EXCL


def written(home: SftpHome, path: bytes, flags: int = CREATE) -> int:
    """How much fits into it, in pieces of a tenth of the quota."""
    file = home.open(path, flags)
    size = 0
    with suppress(OSError):
        while size < 3 * LIMIT:
            file.write(b"x" * (LIMIT // 10), size)
            size += LIMIT // 10
    home.close_file(file)
    return size


def on_disk(alice: Path) -> int:
    return sum(path.stat().st_size for path in alice.rglob("*") if path.is_file())


def test_a_quota_holds_against_truncation_through_another_handle(home: SftpHome, alice: Path) -> None:
    """Each file is claimed, freed through a second handle, and written through the first."""
    handles = []
    for number in range(20):
        path = b"datasets/%d" % number
        file = home.open(path, CREATE)
        with suppress(OSError):
            file.resize(LIMIT * 9 // 10)
        home.close_file(home.open(path, CREATE | os.O_TRUNC))
        handles.append(file)
    for file in handles:
        with suppress(OSError):
            file.write(b"x" * (LIMIT * 9 // 10), 0)
    assert 0 < on_disk(alice) <= LIMIT


def test_a_quota_holds_against_files_that_were_removed_and_are_still_written(home: SftpHome) -> None:
    handles = []
    for number in range(20):
        path = b"datasets/%d" % number
        handles.append(home.open(path, CREATE))
        home.remove(path)
        home.quota.usage.forget("alice")
    size = 0
    for file in handles:
        with suppress(OSError):
            file.write(b"x" * (LIMIT * 9 // 10), 0)
        home.quota.usage.forget("alice")
        size += os.fstat(file.fd).st_size
    assert 0 < size <= LIMIT
    for file in handles:
        home.close_file(file)
    assert written(home, b"datasets/after") == LIMIT, "with their last handle they are free"


def test_what_was_truncated_or_removed_can_be_written_again(home: SftpHome) -> None:
    assert written(home, b"datasets/a") == LIMIT
    assert written(home, b"datasets/a", CREATE | os.O_TRUNC) == LIMIT
    home.remove(b"datasets/a")
    assert written(home, b"datasets/b") == LIMIT
    home.resize(b"datasets/b", LIMIT // 2)
    assert written(home, b"datasets/c") == LIMIT // 2


# --- how many files ---------------------------------------------------------------------------------
@pytest.fixture
def small(root: Path) -> Iterator[SftpHome]:
    """Of three files and folders at most."""
    made = SftpHome(root, "users/alice", SessionQuota("alice", Quota(files=3), UsageTracker(60)))
    yield made
    made.close()


def make_three(home: SftpHome) -> None:
    home.make_folder(b"datasets/a")
    for name in (b"datasets/a/1", b"datasets/a/2"):
        home.close_file(home.open(name, CREATE))


@pytest.mark.parametrize("flags", [CREATE, CREATE | os.O_EXCL, CREATE | os.O_TRUNC])
def test_one_more_than_the_limit_is_refused_with_what_to_do_and_not_made(
    small: SftpHome, alice: Path, flags: int
) -> None:
    make_three(small)
    for more in (lambda: small.open(b"datasets/more", flags), lambda: small.make_folder(b"datasets/more")):
        with pytest.raises(OSError, check=is_full, match="archive"):
            more()
    assert not (alice / "datasets" / "more").exists()
    small.close_file(small.open(b"datasets/a/1", CREATE | os.O_TRUNC))  # it is there already


@pytest.mark.parametrize("how", ["removed", "written over", "folder removed"])
def test_what_goes_makes_room(small: SftpHome, how: str) -> None:
    make_three(small)
    if how == "written over":
        small.rename(b"datasets/a/1", b"datasets/a/2", replace=True)
    else:
        small.remove(b"datasets/a/1")
    if how == "folder removed":
        small.remove(b"datasets/a/2")
        small.remove_folder(b"datasets/a")
        make_three(small)
        return
    small.make_folder(b"datasets/b")
    with pytest.raises(OSError, check=is_full):
        small.make_folder(b"datasets/c")


def test_a_file_that_is_written_over_makes_room_for_bytes(home: SftpHome) -> None:
    for name in (b"datasets/a", b"datasets/b"):
        write(home, name, b"x" * (LIMIT // 2))
    home.rename(b"datasets/a", b"datasets/a", replace=True)
    assert written(home, b"datasets/c") == 0
    home.rename(b"datasets/a", b"datasets/b", replace=True)
    assert written(home, b"datasets/c") == LIMIT // 2


# --- where files go in ------------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["", "jobs", "trash", "trash/files", "tmp"])
def test_files_go_in_where_the_web_takes_them_and_nowhere_else(home: SftpHome, alice: Path, place: str) -> None:
    there = alice / place / "there"
    there.write_bytes(b"kept")
    new, old = (os.fsencode(f"{place}/{name}") for name in ("new", "there"))
    write(home, b"datasets/mine", b"x")
    for attempt in (
        lambda: home.open(new, CREATE),
        lambda: home.make_folder(new),
        lambda: home.open(old, os.O_WRONLY),
        lambda: home.resize(old, 0),
        lambda: home.rename(b"datasets/mine", new, replace=False),
        lambda: home.rename(b"datasets/mine", old, replace=True),
    ):
        with pytest.raises(PermissionError, match="only datasets/, models/, code/ take files"):
            attempt()
    assert there.read_bytes() == b"kept" and not there.with_name("new").exists()
    home.rename(old, b"models/out", replace=False)
    assert (alice / "models" / "out").read_bytes() == b"kept"


def test_a_reason_holds_nothing_that_a_terminal_would_obey() -> None:
    told = with_reason(FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)), b"datasets/\x1b[2J")
    assert told.errno == errno.EEXIST
    assert told.strerror.startswith("There is something at /datasets/\\x1b[2J already.")


@pytest.mark.parametrize("folder", [b"/", b"datasets", b"trash/files"])
def test_a_folder_of_the_home_is_there_already(home: SftpHome, folder: bytes) -> None:
    with pytest.raises(FileExistsError):
        home.make_folder(folder)
