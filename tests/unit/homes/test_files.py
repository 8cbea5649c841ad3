"""A user's files: listing, reading, writing under a quota, moving, removing, and what is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from app.homes.errors import (
    FileMissing,
    HomeMissing,
    HomeUnavailable,
    NameTaken,
    NotAFile,
    NotAFolder,
    PathRefused,
    QuotaExceeded,
)
from app.homes.files import HomeFiles
from app.homes.model import HOME_FOLDERS, HomesOptions, Kind, Quota
from app.homes.path_openers import Opener
from app.kit.errors import Conflict, ModelmillError

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECRET = b"bob's"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "private"


@pytest.fixture
def files(root: Path, opener: Opener) -> HomeFiles:
    made = HomeFiles(HomesOptions(root), opener=opener)
    for user in ("alice", "bob"):
        made.create(user)
    (root / "users/bob/datasets/file").write_bytes(SECRET)
    (root / "users/alice/jobs/j1").mkdir()
    (root / "users/alice/jobs/j1/weights").write_bytes(b"weights")
    return made


@pytest.fixture
def home(root: Path, files: HomeFiles) -> Path:
    return root / "users" / "alice"


def content(files: HomeFiles, path: str, **part: int) -> bytes:
    return b"".join(files.read("alice", path, **part))


def put(files: HomeFiles, path: str, data: bytes = b"data", **how: object) -> None:
    files.write("alice", path, [data], **how)  # type: ignore[arg-type]


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def every_use(files: HomeFiles, path: str) -> list[Callable[[], object]]:
    return [
        lambda: files.browse("alice", path),
        lambda: files.info("alice", path),
        lambda: files.read("alice", path),
        lambda: put(files, path, replace=True),
        lambda: files.make_folder("alice", path),
        lambda: files.move("alice", path, "models/taken"),
        lambda: files.move("alice", "jobs/j1", path),
        lambda: files.remove("alice", path, now=NOW),
    ]


def test_a_new_home_has_its_folders_and_nobody_else_may_look_in(files: HomeFiles, root: Path, home: Path) -> None:
    before = everything_below(root)
    files.create("alice")
    assert everything_below(root) == before
    assert set(HOME_FOLDERS) <= set(everything_below(home))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (home, *(home / name for name in HOME_FOLDERS))}
    assert modes == {0o750}
    assert (root / "common" / "datasets").is_dir()


def test_a_home_is_not_made_over_a_link(files: HomeFiles, root: Path) -> None:
    (root / "users" / "carol").symlink_to(root / "users" / "bob")
    with pytest.raises(PathRefused):
        files.create("carol")
    with pytest.raises(PathRefused):
        files.browse("carol", "datasets")


def test_who_has_no_home_is_told_so(files: HomeFiles) -> None:
    with pytest.raises(HomeMissing, match="carol"):
        files.browse("carol")
    with pytest.raises(PathRefused, match="user"):
        files.browse("../users/bob")


def test_without_its_disk_nothing_is_read_or_made(files: HomeFiles, root: Path) -> None:
    unmounted = HomeFiles(HomesOptions(root, mount=root))
    for use in (
        lambda: unmounted.create("carl"),
        lambda: unmounted.browse("alice"),
        lambda: unmounted.common().info(""),
    ):
        with pytest.raises(HomeUnavailable, match=f"is not mounted at {root}"):
            use()
    assert not (root / "users/carl").exists()
    HomeFiles(HomesOptions(root, mount=Path("/proc"))).create("carl")


def test_a_folder_lists_folders_first_and_links_as_links(files: HomeFiles, home: Path) -> None:
    for name in ("a", "B", "c.csv"):
        put(files, f"datasets/{name}", b"12345")
    files.make_folder("alice", "datasets/zoo")
    (home / "datasets" / "link").symlink_to("/etc/passwd")
    os.utime(home / "datasets" / "B", (NOW.timestamp(), NOW.timestamp()))
    page = files.browse("alice", "/datasets")
    assert [(e.name, e.kind) for e in page.entries] == [
        ("zoo", Kind.FOLDER),
        ("a", Kind.FILE),
        ("B", Kind.FILE),
        ("c.csv", Kind.FILE),
        ("link", Kind.LINK),
    ]
    b = page.entries[2]
    assert (b.path, b.size_bytes, b.modified_at) == ("datasets/B", 5, NOW)
    assert page.next_cursor is None


def test_the_home_itself_is_listed(files: HomeFiles) -> None:
    assert [e.path for e in files.browse("alice").entries] == ["code", "datasets", "jobs", "models", "tmp", "trash"]


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    """In memory, where there is such a place: ten thousand files take seconds elsewhere."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_thousand_files_come_page_by_page_looking_at_those_of_the_page_only(
    quick_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HomeFiles(HomesOptions(quick_disk))
    files.create("alice")
    home = quick_disk / "users" / "alice"
    for number in range(1000):
        (home / "datasets" / f"{number:05}.png").touch()
    looked_at = []
    look = os.stat
    monkeypatch.setattr(
        "app.homes.read_only_tree.os.stat", lambda name, **how: looked_at.append(name) or look(name, **how)
    )
    first = files.browse("alice", "datasets", limit=200)
    assert [e.name for e in first.entries] == [f"{n:05}.png" for n in range(200)]
    assert len(looked_at) == 200
    assert first.total == 1000
    (home / "datasets" / "00199.png").unlink()  # where the page ended
    (home / "datasets" / "00000-new.png").touch()  # before it
    second = files.browse("alice", "datasets", limit=900, cursor=first.next_cursor)
    assert [e.name for e in second.entries] == [f"{n:05}.png" for n in range(200, 1000)]
    assert second.next_cursor is None


def test_pages_cross_from_folders_to_files(files: HomeFiles) -> None:
    for name in ("x", "y"):
        files.make_folder("alice", f"models/{name}")
        put(files, f"models/{name}{name}")
    names, cursor = [], None
    while True:
        page = files.browse("alice", "models", cursor=cursor, limit=1)
        names += [e.name for e in page.entries]
        if (cursor := page.next_cursor) is None:
            break
    assert names == ["x", "y", "xx", "yy"]


@pytest.mark.parametrize("cursor", ["x", "d:", "f:a/b", "f:..", "z:a", ":", "f:\0"])
def test_a_made_up_cursor_is_refused(files: HomeFiles, cursor: str) -> None:
    with pytest.raises(PathRefused, match="cursor"):
        files.browse("alice", "datasets", cursor=cursor)


def test_a_part_of_a_file_is_read_in_pieces(files: HomeFiles) -> None:
    put(files, "datasets/d", bytes(range(100)))
    assert content(files, "datasets/d", start=10, end=20) == bytes(range(10, 20))
    assert content(files, "datasets/d", start=90, end=1000) == bytes(range(90, 100))
    assert [len(c) for c in files.read("alice", "datasets/d", chunk_bytes=40)] == [40, 40, 20]
    with pytest.raises(NotAFile):
        files.read("alice", "datasets")
    with pytest.raises(NotAFolder):
        files.browse("alice", "datasets/d")
    with pytest.raises(FileMissing, match="datasets/e"):
        files.read("alice", "datasets/e")


def test_an_upload_replaces_only_when_told_and_its_tag_changes(files: HomeFiles) -> None:
    put(files, "datasets/d", b"1")
    before = files.info("alice", "datasets/d")
    with pytest.raises(NameTaken):
        put(files, "datasets/d", b"2")
    put(files, "datasets/d", b"2", replace=True)
    assert content(files, "datasets/d") == b"2"
    assert files.info("alice", "datasets/d").etag != before.etag
    files.make_folder("alice", "datasets/folder")
    with pytest.raises(NotAFile):
        put(files, "datasets/folder", replace=True)


def test_what_is_in_the_way_of_an_upload_is_said_before_it_is_read(files: HomeFiles) -> None:
    def never() -> Iterator[bytes]:
        pytest.fail("the upload was read")
        yield b""

    put(files, "datasets/d")
    for path, error in (("datasets/d", NameTaken), ("datasets/no/d", FileMissing), ("jobs/j1/x", PathRefused)):
        with pytest.raises(error):
            files.write("alice", path, never())
    with pytest.raises(QuotaExceeded):
        files.write("alice", "datasets/e", never(), expected_bytes=1000, quota=Quota(100))


class Broken(OSError):
    pass


@pytest.mark.parametrize("error", [Broken("connection reset"), ValueError("x"), KeyboardInterrupt()])
def test_an_upload_that_breaks_off_leaves_nothing_and_its_error_passes_as_it_is(
    files: HomeFiles, home: Path, error: BaseException
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        assert any(name.startswith("tmp/") for name in everything_below(home))
        raise error

    before = everything_below(home)
    with pytest.raises(type(error)) as raised:
        files.write("alice", "datasets/d", chunks(), quota=Quota(1000))
    assert raised.value is error
    assert everything_below(home) == before
    assert files.usage("alice").folders["datasets"] == 0


def test_a_result_is_moved_out_of_its_job_and_out_of_the_trash(files: HomeFiles, home: Path) -> None:
    files.move("alice", "jobs/j1/weights", "models/weights")
    files.move("alice", "jobs/j1", "datasets/j1")
    (home / "trash" / "jobs" / "j2").mkdir()
    files.move("alice", "trash/jobs/j2", "models/j2")
    assert everything_below(home / "models") == ["j2", "weights"]
    assert everything_below(home / "jobs") == []
    put(files, "models/new")
    with pytest.raises(NameTaken, match="models/weights"):
        files.move("alice", "models/new", "models/weights")
    with pytest.raises(FileMissing, match="models/none"):
        files.move("alice", "models/none", "models/x")
    with pytest.raises(PathRefused, match="target"):
        files.move("alice", "models/j2", "models/j2/inner")
    assert content(files, "models/weights") == b"weights"


@pytest.mark.parametrize("target", ["jobs/x", "trash/x", "trash/files/x", "tmp/x", "x", "models", "../bob/datasets/x"])
def test_nothing_is_moved_written_or_made_where_it_would_be_cleared_away(files: HomeFiles, target: str) -> None:
    for use in (
        lambda: files.move("alice", "jobs/j1/weights", target),
        lambda: put(files, target),
        lambda: files.make_folder("alice", target),
    ):
        with pytest.raises(PathRefused):
            use()


@pytest.mark.parametrize("path", ["", "/", *HOME_FOLDERS])
def test_the_folders_of_a_home_are_neither_moved_nor_removed(files: HomeFiles, home: Path, path: str) -> None:
    before = everything_below(home)
    for use in (lambda: files.remove("alice", path, now=NOW), lambda: files.move("alice", path, "models/x")):
        with pytest.raises(PathRefused):
            use()
    assert everything_below(home) == before


def test_no_link_is_a_detour_to_the_folders_that_stay(files: HomeFiles, home: Path) -> None:
    (home / "datasets" / "up").symlink_to("..")
    for use in (
        lambda: files.remove("alice", "datasets/up/jobs", now=NOW),
        lambda: files.move("alice", "datasets/up/jobs", "models/x"),
        lambda: put(files, "datasets/up/jobs/x"),
    ):
        with pytest.raises(PathRefused):
            use()
    assert (home / "jobs" / "j1" / "weights").read_bytes() == b"weights"


def test_what_is_removed_lies_in_the_trash_and_can_be_brought_back(files: HomeFiles) -> None:
    put(files, "datasets/d", b"precious")
    trashed = files.remove("alice", "datasets/d", now=NOW)
    assert trashed == "trash/files/20261120T120000000000Z-d"
    with pytest.raises(FileMissing):
        files.info("alice", "datasets/d")
    files.move("alice", trashed, "datasets/d")
    assert content(files, "datasets/d") == b"precious"


def test_what_is_removed_from_the_trash_is_gone(files: HomeFiles, home: Path, root: Path) -> None:
    files.make_folder("alice", "datasets/f")
    put(files, "datasets/f/d", b"x" * 50)
    (home / "datasets" / "f" / "bob").symlink_to(root / "users" / "bob")
    (home / "tmp" / "left").touch()
    trashed = files.remove("alice", "datasets/f", now=NOW)
    assert trashed
    assert files.usage("alice").folders["trash"] > 50
    assert files.remove("alice", trashed, now=NOW) is None
    assert files.remove("alice", "tmp/left", now=NOW) is None
    assert files.usage("alice").total_bytes == 7
    assert (root / "users/bob/datasets/file").read_bytes() == SECRET


def test_a_removed_file_goes_for_good_after_seven_days_and_a_cut_off_upload_after_one(
    files: HomeFiles, home: Path
) -> None:
    put(files, "datasets/d")
    trashed = files.remove("alice", "datasets/d", now=NOW)
    days = timedelta(days=1)
    for name, age in (
        (".upload-old", 1.1 * days),
        (".upload-new", 0.1 * days),
        ("mine", 90 * days),
    ):
        (home / "tmp" / name).touch()
        os.utime(home / "tmp" / name, ((NOW - age).timestamp(),) * 2)
    (home / "trash" / "files" / "put here by hand").touch()
    assert files.sweep("alice", now=NOW) == ["tmp/.upload-old"]
    assert files.sweep("alice", now=NOW + timedelta(days=6, hours=23)) == ["tmp/.upload-new"]
    assert files.sweep("alice", now=NOW + timedelta(days=7)) == [trashed]
    assert everything_below(home / "tmp") == ["mine"]
    assert everything_below(home / "trash") == ["files", "files/put here by hand", "jobs"]


def test_a_name_that_is_not_utf8_is_shown_escaped_and_can_be_read_moved_and_removed(
    files: HomeFiles, home: Path
) -> None:
    for raw in (b"\xff\xfe.npz", b"line\nbreak", "a\u202eb".encode(), b"back\\slash"):
        with open(os.fsencode(home / "datasets") + b"/" + raw, "wb") as file:  # noqa: PTH123
            file.write(raw)
    page = files.browse("alice", "datasets", limit=2)
    entries = [*page.entries, *files.browse("alice", "datasets", cursor=page.next_cursor).entries]
    assert {e.name for e in entries} == {"\\xff\\xfe.npz", "line\\x0abreak", "a\\xe2\\x80\\xaeb", "back\\x5cslash"}
    contents = {content(files, e.path) for e in entries}
    assert contents == {b"\xff\xfe.npz", b"line\nbreak", "a\u202eb".encode(), b"back\\slash"}
    for entry in entries:
        with pytest.raises(PathRefused):
            files.move("alice", entry.path, f"models/{entry.name}")
    files.move("alice", entries[0].path, "models/plain")
    for entry in entries[1:]:
        trashed = files.remove("alice", entry.path, now=NOW)
        assert trashed
        assert files.remove("alice", trashed, now=NOW) is None
    assert everything_below(home / "datasets") == []


@pytest.mark.parametrize(
    "path",
    [
        "../bob/datasets/file",
        "datasets/../../bob/datasets/file",
        "/etc/passwd/..",
        "datasets//file",
        "//datasets/file",
        "datasets/./file",
        "datasets/\0",
        "datasets/file\0.txt",
        "datasets\\file",
        "datasets／..／x",
        "datasets/．．/x",
        "datasets/\u202efile",
        "datasets/\u200b",
        "\\x2e\\x2e/bob/datasets/file",
        "datasets/\\x2e\\x2e",
        "datasets\\x2ffile",
        "datasets/" + "x" * 256,
        "x/" * 3000,
        "datasets/file/",
    ],
)
def test_every_trick_in_a_path_is_refused(files: HomeFiles, home: Path, path: str) -> None:
    before = everything_below(home)
    for use in every_use(files, path):
        with pytest.raises(PathRefused):
            use()
    assert everything_below(home) == before


@pytest.mark.parametrize("target", ["../../bob/datasets", "{root}/users/bob/datasets", "/etc", "/"])
def test_a_link_to_another_users_folder_shows_and_changes_nothing(
    files: HomeFiles, home: Path, root: Path, target: str
) -> None:
    (home / "datasets" / "l").symlink_to(target.format(root=root))
    before = everything_below(root)
    for use in every_use(files, "datasets/l/file"):
        with pytest.raises(PathRefused):
            use()
    for use in every_use(files, "datasets/l")[:3]:
        with pytest.raises(PathRefused):
            use()
    assert everything_below(root) == before
    assert (root / "users/bob/datasets/file").read_bytes() == SECRET
    put(files, "datasets/l", b"mine", replace=True)
    assert content(files, "datasets/l") == b"mine"
    assert (root / "users/bob/datasets/file").read_bytes() == SECRET


@pytest.mark.parametrize("folder", ["tmp", "trash", "trash/files", "datasets"])
def test_a_folder_of_the_home_that_a_job_replaced_by_a_link_leads_nobody_out(
    files: HomeFiles, home: Path, root: Path, folder: str
) -> None:
    """Uploads pass tmp/, removals go to trash/files: neither may end at bob's."""
    put(files, "models/m")
    (home / folder).rename(home / "aside")
    (home / folder).symlink_to(root / "users" / "bob" / folder)
    before = everything_below(root / "users" / "bob")
    for use in (
        lambda: put(files, "datasets/new"),
        lambda: files.remove("alice", "models/m", now=NOW),
        lambda: files.sweep("alice", now=NOW + timedelta(days=100)),
        lambda: files.usage("alice"),
    ):
        try:
            use()
        except ModelmillError as error:
            assert isinstance(error, PathRefused)
    assert everything_below(root / "users" / "bob") == before


def test_a_pipe_in_a_folder_is_listed_and_not_read(files: HomeFiles, home: Path) -> None:
    os.mkfifo(home / "datasets" / "pipe")
    assert files.browse("alice", "datasets").entries[0].kind is Kind.OTHER
    with pytest.raises(NotAFile):
        files.read("alice", "datasets/pipe")
    put(files, "datasets/pipe", b"no pipe any more", replace=True)
    assert content(files, "datasets/pipe") == b"no pipe any more"


def test_nothing_makes_a_hard_link(files: HomeFiles, root: Path) -> None:
    """Not to another user's file above all: what is moved, written or brought back is one name of one file."""
    put(files, "datasets/d")
    trashed = files.remove("alice", "datasets/d", now=NOW)
    assert trashed
    files.move("alice", trashed, "datasets/e")
    files.move("alice", "jobs/j1/weights", "models/w")
    assert {path.stat().st_nlink for path in root.rglob("*") if path.is_file()} == {1}


def test_a_disk_that_is_full_is_said_so_and_leaves_nothing(
    files: HomeFiles, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    before = everything_below(home)
    monkeypatch.setattr("app.homes.rooted_directory.os.write", full)
    with pytest.raises(ModelmillError) as raised:
        put(files, "datasets/d")
    assert (raised.value.status, raised.value.code) == (507, "HOME_DISK_FULL")
    assert everything_below(home) == before


def test_no_descriptor_is_left_open(files: HomeFiles) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    for path in ("datasets/no/x", "../x", "jobs/j1/weights/x"):
        for use in every_use(files, path):
            with pytest.raises(ModelmillError):
                use()
    stream = files.read("alice", "jobs/j1/weights")
    del stream
    files.usage("alice")
    assert count() == before


def test_a_file_that_changes_while_its_replacement_arrives_is_not_replaced(home: Path, files: HomeFiles) -> None:
    put(files, "datasets/d", b"known")
    known = files.info("alice", "datasets/d").etag

    def chunks() -> Iterator[bytes]:
        (home / "datasets/d").write_bytes(b"of somebody else")
        yield b"mine"

    def require(etag: str | None) -> None:
        if etag != known:
            raise Conflict("changed")

    with pytest.raises(Conflict):
        files.write("alice", "datasets/d", chunks(), replace=True, require=require)
    assert content(files, "datasets/d") == b"of somebody else"
    assert everything_below(home / "tmp") == []
