"""Both ways of opening a path in a folder keep one promise: nothing outside is reached, everything inside works."""

from __future__ import annotations

import errno
import inspect
import os
import resource
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.homes.errors import LeadsOut
from app.homes.model import Kind
from app.homes.path_openers import KernelOpener, Opener, StepOpener, best_opener
from app.homes.rooted_directory import RootedDirectory, Usage
from tests.harness.name_swap import outcomes, swapping

SECRET = b"of somebody else"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "home" / "a" / "b").mkdir(parents=True)
    (tmp_path / "home" / "a" / "b" / "file").write_bytes(b"mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(SECRET)
    return tmp_path / "home"


@pytest.fixture
def home(root: Path, opener: Opener) -> Iterator[RootedDirectory]:
    with RootedDirectory.at(root, opener=opener) as directory:
        yield directory


def read(home: RootedDirectory, path: str) -> bytes:
    fd = home.open_file(path)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def write(home: RootedDirectory, path: str, data: bytes, *, replace: bool = False) -> None:
    with home.draft("") as draft:
        draft.write(data)
        draft.publish(path, replace=replace)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def inside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def every_use(home: RootedDirectory, path: str) -> list[Callable[[], object]]:
    """Every way to reach what lies at a path whose folder is bad."""
    return [
        lambda: home.open(path, os.O_RDONLY),
        lambda: home.open(path, os.O_WRONLY | os.O_CREAT),
        lambda: home.open(path, os.O_PATH),
        lambda: home.open_file(path),
        lambda: home.stat(path),
        lambda: home.lstat(path),
        lambda: home.names(path),
        lambda: home.make_folder(path),
        lambda: home.rename(path, "a/taken"),
        lambda: home.rename("a/b/file", path, replace=True),
        lambda: home.remove(path),
        lambda: home.remove_folder(path),
        lambda: home.remove_tree(path),
        lambda: home.usage(path),
        lambda: write(home, path, b"x", replace=True),
        lambda: home.draft(path).__enter__(),
    ]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])  # an old kernel, a strict container
def test_without_openat2_it_is_done_step_by_step(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def missing(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(KernelOpener, "open", missing)
    best_opener.cache_clear()
    try:
        assert isinstance(best_opener(), StepOpener)
    finally:
        best_opener.cache_clear()


def test_what_lies_inside_is_read(home: RootedDirectory) -> None:
    assert read(home, "a/b/file") == b"mine"
    assert read(home, "/a//./b/file") == b"mine"
    assert home.stat("").st_ino == home.lstat("/").st_ino
    assert {(name.name, name.kind) for name in home.names("a")} == {("b", Kind.FOLDER)}


@pytest.mark.parametrize("path", ["../other/file", "a/../../other/file", "a/b/../../../other/file", "a/../a/b/file"])
def test_two_dots_are_refused(home: RootedDirectory, path: str) -> None:
    for use in every_use(home, path):
        with pytest.raises(LeadsOut):
            use()


@pytest.mark.parametrize("path", ["../other/file", "/etc/passwd", "a/../../other/file"])
def test_the_opener_alone_refuses_to_leave(opener: Opener, home: RootedDirectory, path: str) -> None:
    with pytest.raises(LeadsOut):
        opener.open(home.root_fd, path, os.O_RDONLY)


@pytest.mark.parametrize("target", ["{tmp}/other", "../other", "../../{name}/other", "/proc/self/cwd", "/"])
def test_a_folder_that_is_a_link_outside_is_no_way_out(home: RootedDirectory, root: Path, target: str) -> None:
    (root / "link").symlink_to(target.format(tmp=root.parent, name=root.parent.name))
    for use in every_use(home, "link/file"):
        with pytest.raises(LeadsOut):
            use()
    assert (root.parent / "other" / "file").read_bytes() == SECRET
    assert inside(root.parent / "other") == ["file"]


def test_a_magic_link_of_proc_leads_nowhere(opener: Opener, root: Path) -> None:
    """It would jump to the open folder without going through `..`."""
    fd = os.open(root.parent / "other", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with RootedDirectory.at(Path("/proc/self"), opener=opener) as proc, pytest.raises(LeadsOut):
            proc.open(f"fd/{fd}/file", os.O_RDONLY)
    finally:
        os.close(fd)


@pytest.mark.parametrize("target", ["../../other/file", "/etc/passwd", "loop"])
def test_a_bad_link_is_not_read_or_written_through_and_can_be_renamed_and_deleted(
    home: RootedDirectory, root: Path, target: str
) -> None:
    link = root / "a" / "loop"
    link.symlink_to(target)
    for use in (
        lambda: home.open("a/loop", os.O_RDONLY),
        lambda: home.open("a/loop", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        lambda: home.open_file("a/loop"),
        lambda: home.stat("a/loop"),
        lambda: home.names("a/loop"),
    ):
        with pytest.raises(LeadsOut):
            use()
    assert stat.S_ISLNK(home.lstat("a/loop").st_mode)
    assert Kind.LINK in {name.kind for name in home.names("a")}
    home.rename("a/loop", "a/bad")
    home.remove("a/bad")
    link.symlink_to(target)
    home.remove_tree("a/loop")
    assert inside(root / "a") == ["b"]
    assert (root.parent / "other" / "file").read_bytes() == SECRET


def test_a_link_renamed_to_where_its_dots_lead_out_stays_harmless(home: RootedDirectory, root: Path) -> None:
    """The trick that opens a plain chroot: inside while it lies deep, outside once it is moved up."""
    home.make_folder("a/b/h")
    (root / "a" / "b" / "h" / "l").symlink_to("../../../../other/file")
    home.rename("a/b/h/l", "l")
    with pytest.raises(LeadsOut):
        read(home, "l")


def test_a_link_inside_works_where_the_kernel_can_tell_and_is_refused_where_not(
    home: RootedDirectory, root: Path, opener: Opener
) -> None:
    (root / "link").symlink_to("a/b/../b")
    if opener.follows_links:
        assert read(home, "link/file") == b"mine"
        assert home.usage("link").files == 1
    else:
        with pytest.raises(LeadsOut):
            read(home, "link/file")


def test_changes_go_through_no_link_even_inside(home: RootedDirectory, root: Path) -> None:
    (root / "link").symlink_to("a")
    for use in (
        lambda: home.remove_tree("link/b"),
        lambda: home.rename("link/b", "c"),
        lambda: home.make_folder("link/c"),
    ):
        with pytest.raises(LeadsOut):
            use()
    assert read(home, "a/b/file") == b"mine"


def test_the_root_itself_may_not_be_reached_by_a_link_below_the_operators_folder(root: Path, opener: Opener) -> None:
    (root.parent / "eve").symlink_to("other")
    with pytest.raises(LeadsOut):
        RootedDirectory.at(root.parent, "eve", opener)
    (root.parent / "mount").symlink_to(root)
    with RootedDirectory.at(root.parent / "mount", "a", opener) as below:
        assert read(below, "b/file") == b"mine"


def test_a_nul_in_a_name_does_not_shorten_it(home: RootedDirectory) -> None:
    for use in every_use(home, "a/b/file\0.txt")[:1] + every_use(home, "a\0/b"):
        with pytest.raises(ValueError, match="null"):
            use()
    assert read(home, "a/b/file") == b"mine"


def test_pipes_sockets_devices_and_folders_are_no_files(home: RootedDirectory, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)  # the path of a socket may have 107 bytes
        server.bind("socket")
        os.chdir(here)
    for path, code in (("pipe", errno.ENXIO), ("socket", errno.ENXIO), ("a", errno.EISDIR)):
        with pytest.raises(OSError) as raised:
            home.open_file(path)
        assert raised.value.errno == code
    assert [name.kind for name in home.names() if name.name in ("pipe", "socket")] == [Kind.OTHER] * 2


def test_a_device_is_no_file(opener: Opener) -> None:
    with RootedDirectory.at(Path("/dev"), opener=opener) as devices, pytest.raises(OSError) as raised:
        devices.open_file("null")
    assert raised.value.errno == errno.ENXIO


def test_a_file_in_the_middle_of_a_path_is_said_to_be_no_folder(home: RootedDirectory) -> None:
    with pytest.raises(NotADirectoryError):
        home.stat("a/b/file/more")
    with pytest.raises(FileNotFoundError):
        home.stat("a/c/file")


def test_a_draft_takes_its_place_at_once_and_leaves_nothing_when_it_fails(home: RootedDirectory, root: Path) -> None:
    write(home, "a/new", b"1")
    with pytest.raises(FileExistsError):
        write(home, "a/new", b"2")
    assert read(home, "a/new") == b"1"
    write(home, "a/new", b"3", replace=True)
    assert read(home, "a/new") == b"3"
    with pytest.raises(RuntimeError), home.draft("") as draft:
        draft.write(b"half")
        raise RuntimeError
    assert inside(root) == ["a"]
    assert stat.S_IMODE((root / "a" / "new").stat().st_mode) == 0o640


def test_a_draft_is_on_the_disk_before_it_has_its_name(
    home: RootedDirectory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr("app.homes.rooted_directory.os.fsync", lambda _: synced.append((root / "a" / "new").exists()))
    write(home, "a/new", b"1")
    assert synced == [False]


def test_a_draft_replaces_a_link_and_not_what_it_leads_to(home: RootedDirectory, root: Path) -> None:
    (root / "a" / "new").symlink_to("../../other/file")
    write(home, "a/new", b"mine", replace=True)
    assert read(home, "a/new") == b"mine"
    assert (root.parent / "other" / "file").read_bytes() == SECRET


def test_a_new_folder_has_its_mode_whatever_the_umask(home: RootedDirectory, root: Path) -> None:
    before = os.umask(0o077)
    try:
        home.make_folder("a/new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "a" / "new").stat().st_mode) == 0o750
    with pytest.raises(FileExistsError):
        home.make_folder("a/new")


def test_renaming_overwrites_only_when_asked(home: RootedDirectory, root: Path) -> None:
    write(home, "x", b"x")
    write(home, "y", b"y")
    with pytest.raises(FileExistsError):
        home.rename("x", "y")
    home.rename("x", "y", replace=True)
    assert read(home, "y") == b"x"
    assert not (root / "x").exists()


def test_renaming_overwrites_nothing_where_the_storage_knows_no_such_rename(
    home: RootedDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.homes.rooted_directory._rename_noreplace", lambda *_: errno.EINVAL)  # as NFS answers
    write(home, "x", b"x")
    write(home, "y", b"y")
    with pytest.raises(FileExistsError):
        home.rename("x", "y")
    home.rename("x", "z")
    assert (read(home, "y"), read(home, "z")) == (b"y", b"x")


def test_the_root_itself_is_neither_removed_nor_renamed(home: RootedDirectory) -> None:
    for use in (lambda: home.remove_tree(""), lambda: home.remove_folder("/"), lambda: home.rename(".", "a/c")):
        with pytest.raises(OSError) as raised:
            use()
        assert raised.value.errno == errno.EBUSY


def test_a_tree_is_removed_without_following_its_links(home: RootedDirectory, root: Path) -> None:
    (root / "a" / "folder").symlink_to(root.parent / "other")
    (root / "a" / "b" / "up").symlink_to("../..")
    os.mkfifo(root / "a" / "pipe")
    home.remove_tree("a")
    assert inside(root) == []
    assert (root.parent / "other" / "file").read_bytes() == SECRET


@pytest.fixture
def few_descriptors_and_little_stack() -> Iterator[None]:
    files, frames = resource.getrlimit(resource.RLIMIT_NOFILE), sys.getrecursionlimit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 50, files[1]))  # noqa: PTH208
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    yield
    sys.setrecursionlimit(frames)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)


def test_a_tree_deeper_than_stack_and_descriptors_reach_is_measured_and_removed(
    home: RootedDirectory, root: Path, few_descriptors_and_little_stack: None
) -> None:
    here = os.open(root / "a", os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert home.usage().files == 2 + 300 + len(("a", "a/b"))
    home.remove_tree("a")
    assert inside(root) == []


def test_a_read_only_tree_can_be_removed_by_its_owner(tmp_path: Path, root: Path, opener: Opener) -> None:
    """As a job may leave it. Root has every right, so it is done as somebody else."""
    with RootedDirectory.at(root, opener=opener) as home:
        (root / "a" / "shut").mkdir()
        (root / "a" / "shut" / "file").touch()
        for path in (root, *root.rglob("*")):
            os.chown(path, 65534, 65534) if os.geteuid() == 0 else None
        (root / "a" / "b").chmod(0o500)
        (root / "a" / "shut").chmod(0)
        was = os.geteuid()
        os.seteuid(65534 if was == 0 else was)
        try:
            with pytest.raises(PermissionError):
                home.names("a/shut")
            home.remove_tree("a")
        finally:
            os.seteuid(was)
    assert inside(root) == []


def test_what_may_not_be_removed_is_said_so(root: Path, opener: Opener) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make a file of somebody else")
    with RootedDirectory.at(root, opener=opener) as home:
        os.seteuid(65534)
        try:
            for path in ("a/b/file", "a"):
                with pytest.raises(PermissionError):
                    home.remove_tree(path)
        finally:
            os.seteuid(0)


def test_a_tree_that_keeps_growing_is_reported_and_not_waited_for(
    home: RootedDirectory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmdir = os.rmdir

    def a_job_is_quicker(name: str, *, dir_fd: int) -> None:
        os.close(os.open(f"{name}/more", os.O_CREAT | os.O_WRONLY, dir_fd=dir_fd))
        rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr("app.homes.tree_walk.os.rmdir", a_job_is_quicker)
    with pytest.raises(OSError) as raised:
        home.remove_tree("a")
    assert raised.value.errno == errno.ENOTEMPTY


def test_usage_counts_a_file_with_two_names_once_and_links_as_themselves(home: RootedDirectory, root: Path) -> None:
    os.link(root / "a" / "b" / "file", root / "a" / "again")
    (root / "a" / "link").symlink_to("/etc/passwd")
    assert home.usage("a") == Usage(size_bytes=4 + len("/etc/passwd"), files=4)


def test_a_folder_moved_elsewhere_while_it_is_gone_through_does_not_lead_there(
    home: RootedDirectory, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a" / "b" / "c").mkdir()
    unlink = os.unlink

    def move_away(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        (root / "a" / "b" / "c").rename(root.parent / "other" / "c")

    (root / "a" / "b" / "c" / "last").touch()
    (root / "a" / "b" / "file").unlink()
    monkeypatch.setattr("app.homes.tree_walk.os.unlink", move_away)
    with pytest.raises(OSError) as raised:
        home.remove_tree("a")
    assert raised.value.errno == errno.EAGAIN
    assert (root.parent / "other" / "file").read_bytes() == SECRET


def test_no_descriptor_is_left_open(home: RootedDirectory, root: Path) -> None:
    (root / "bad").symlink_to("/etc")
    before = open_descriptors()
    for path in ("bad/file", "../x", "a/b/file/x", "nothing/x"):
        for use in every_use(home, path):
            with pytest.raises(OSError):
                use()
    write(home, "a/new", b"x")
    home.usage()
    home.remove_tree("a")
    assert open_descriptors() == before


def test_a_folder_swapped_for_a_link_while_it_is_read_never_shows_what_is_outside(
    home: RootedDirectory, root: Path
) -> None:
    (root / "a" / "evil").symlink_to(root.parent / "other")

    def look() -> object:
        try:
            return read(home, "a/b/file")
        except LeadsOut:
            return LeadsOut

    with swapping(root / "a" / "b", root / "a" / "evil"):
        assert outcomes(look, at_least=2000, kinds=2) == {b"mine", LeadsOut}


def test_what_is_removed_while_it_is_swapped_for_a_link_is_never_outside(home: RootedDirectory, root: Path) -> None:
    evil = root / "a" / "evil"
    for _ in range(30):
        (root / "a" / "b" / "c").mkdir(parents=True, exist_ok=True)
        (root / "a" / "b" / "c" / "file").touch()
        evil.symlink_to(root.parent / "other")
        with swapping(root / "a" / "b", evil), suppress(OSError):
            home.remove_tree("a/b")
        assert inside(root.parent / "other") == ["file"]
        home.remove_tree("a")
