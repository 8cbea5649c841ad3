"""The built-in SFTP server, as its own process, with OpenSSH's own client: what users do, and what they must not."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import asyncssh
import pytest

from app.accounts.model import Role
from app.homes.sftp.builtin.server import SESSIONS
from app.homes.sftp.builtin.session import MAX_LOGGED
from tests.harness.sftp import SftpServer, has_client, kill
from tests.harness.until import PATIENCE_S, until
from tests.harness.variants import exhaustive

pytestmark = [pytest.mark.sftp, pytest.mark.skipif(not has_client(), reason="OpenSSH's client is not installed")]
MIB = 1 << 20
SLOW = ("-l", "20000")
"""2.5 MB/s: slow enough to be killed in the middle."""
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    deployment = SftpServer(tmp_path_factory.mktemp("sftp"))
    yield deployment
    deployment.close()


@pytest.fixture
def name() -> str:
    return f"user{next(_NUMBERS)}"


@pytest.fixture
def home(server: SftpServer, name: str) -> Path:
    return server.user(name)


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def random_file(path: Path, size_bytes: int) -> Path:
    path.write_bytes(os.urandom(size_bytes))
    return path


# --- files ------------------------------------------------------------------------------------------
def test_an_uploaded_file_comes_back_the_same_and_jobs_can_read_it(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    local = random_file(tmp_path / "data.bin", 3 * MIB + 17)
    back = tmp_path / "back.bin"
    server.batch(name, f"put {local} datasets/data.bin", f"get datasets/data.bin {back}")
    assert sha(home / "datasets" / "data.bin") == sha(local) == sha(back)
    assert (home / "datasets" / "data.bin").stat().st_mode & 0o777 == 0o640


def test_folders_go_up_whole_and_are_listed_made_and_removed(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "set" / "inner").mkdir(parents=True)
    (tmp_path / "set" / "inner" / "圖 1.txt").write_text("x")
    output = server.batch(
        name,
        f"put -r {tmp_path / 'set'} datasets/set",
        "ls -l datasets/set/inner",
        "mkdir datasets/new",
        "rmdir datasets/new",
        "rm datasets/set/inner/*",
        "cd datasets",
        "pwd",
        "cd ..",
        "pwd",
        "ls",
    )
    assert "圖 1.txt" in output
    assert "/datasets\n" in output
    assert name in output  # the owner is shown by this name, and by no other of the machine
    assert list((home / "datasets" / "set" / "inner").iterdir()) == []
    for folder in ("datasets", "models", "code", "jobs", "trash", "tmp"):
        assert folder in output


def test_times_are_kept_and_the_mode_is_ours(server: SftpServer, name: str, home: Path, tmp_path: Path) -> None:
    local = random_file(tmp_path / "old", 10)
    os.utime(local, (1_500_000_000, 1_500_000_000))
    local.chmod(0o777)
    server.batch(name, f"put -p {local} models/old")
    assert (home / "models" / "old").stat().st_mtime == 1_500_000_000
    assert (home / "models" / "old").stat().st_mode & 0o777 == 0o640
    server.batch(name, "chmod 777 models/old")  # passed over: copying tools set modes as they go


@pytest.mark.slow
def test_an_upload_whose_client_was_killed_goes_on_where_it_was(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    local, remote = random_file(tmp_path / "big", 24 * MIB), home / "datasets" / "big"
    client = server.begin(name, f"put {local} datasets/big", *SLOW)
    until(lambda: remote.exists() and remote.stat().st_size > 2 * MIB, what="some of it is there")
    kill(client)
    assert remote.stat().st_size < 24 * MIB
    inode = remote.stat().st_ino
    server.batch(name, f"reput {local} datasets/big")
    assert sha(remote) == sha(local)
    assert remote.stat().st_ino == inode


@pytest.mark.slow
def test_a_download_whose_client_was_killed_goes_on_where_it_was(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    remote, local = random_file(home / "models" / "big", 24 * MIB), tmp_path / "big"
    client = server.begin(name, f"get models/big {local}", *SLOW)
    until(lambda: local.exists() and local.stat().st_size > 2 * MIB, what="some of it is there")
    kill(client)
    assert local.stat().st_size < 24 * MIB
    server.batch(name, f"reget models/big {local}")
    assert sha(local) == sha(remote)


def test_a_result_is_kept_by_renaming_it_from_jobs_to_models(server: SftpServer, name: str, home: Path) -> None:
    (home / "jobs" / "run-1").mkdir()
    (home / "jobs" / "run-1" / "weights.onnx").write_bytes(b"w")
    server.batch(name, "rename jobs/run-1/weights.onnx models/kept.onnx")
    assert (home / "models" / "kept.onnx").read_bytes() == b"w"


@pytest.mark.parametrize("top", ["datasets", "trash/jobs", *exhaustive("models", "code", "jobs", "trash", "tmp")])
def test_the_folders_of_a_home_stay(server: SftpServer, name: str, home: Path, top: str) -> None:
    output = server.batch(
        name, f"-rename {top} models/away", f"-rmdir {top}", "mkdir models/empty", f"-rename models/empty {top}"
    )
    assert output.lower().count("denied") == 3
    assert (home / top).is_dir()
    assert (home / "models" / "empty").is_dir()


# --- logging in -------------------------------------------------------------------------------------
def test_a_new_user_comes_in_with_the_password_they_were_given(server: SftpServer, name: str) -> None:
    _, password = server.accounts.users.create(name, Role.USER, by="admin")
    assert password is not None
    server.homes.outbox.apply(name)
    client = server.terminal(name, "-o", "PubkeyAuthentication=no")
    for answer in (password, password, "a password of mine", "a password of mine"):
        client.expect("(?i)password:")
        client.sendline(answer)
    client.expect("sftp>")
    client.close(force=True)
    assert server.with_password(name, password, "ls").returncode != 0
    assert server.with_password(name, "a password of mine", "ls").returncode == 0


def test_a_one_time_password_is_changed_at_the_first_log_in(server: SftpServer, name: str) -> None:
    server.user(name, has_key=False)
    one_time = server.homes.sftp.reset_password(name, by="admin")
    assert server.homes.sftp.facts(name).needs_new_password
    client = server.terminal(name, "-o", "PubkeyAuthentication=no")
    client.expect("password:")
    client.sendline(one_time)
    client.expect("(?i)one time")
    for new in ("short", "my own password 1"):
        client.expect("(?i)current|old")
        client.sendline(one_time)
        client.expect("(?i)new.*:")
        client.sendline(new)
        client.expect("(?i)new.*:")
        client.sendline(new)
    client.expect("sftp>")
    client.sendline("bye")
    client.close()
    assert not server.homes.sftp.facts(name).needs_new_password
    assert server.with_password(name, "my own password 1", "ls").returncode == 0
    assert server.with_password(name, one_time, "ls").returncode != 0


def test_a_one_time_password_opens_nothing_before_it_is_changed(server: SftpServer, name: str) -> None:
    server.user(name, has_key=False)
    one_time = server.homes.sftp.reset_password(name, by="admin")
    done = server.with_password(name, one_time, "ls")
    assert done.returncode != 0
    assert "datasets" not in done.stdout


def test_a_password_set_on_the_page_works_and_the_one_before_does_not(server: SftpServer, name: str) -> None:
    server.user(name, has_key=False)
    for password in ("first password", "second password"):
        server.homes.sftp.set_password(name, password, by=name)
        assert server.with_password(name, password, "ls").returncode == 0
    assert server.with_password(name, "first password", "ls").returncode != 0


def test_the_fingerprint_is_that_of_the_host_key(server: SftpServer, name: str, home: Path) -> None:
    server.batch(name, "ls")
    told = subprocess.run(
        ["ssh-keygen", "-lf", str(server.folder / "known_hosts")], capture_output=True, text=True, check=True
    )
    info = server.homes.sftp.facts(name).endpoint
    assert info.fingerprint in told.stdout
    assert (info.port, info.username) == (server.port, name)
    assert (server.settings.data_dir / "sftp" / "host_key").stat().st_mode & 0o777 == 0o600


def test_a_connection_with_too_many_sessions_is_ended(server: SftpServer, name: str, home: Path) -> None:
    async def open_many() -> None:
        async with asyncssh.connect(
            "127.0.0.1", server.port, username=name, client_keys=[str(server.key)], known_hosts=None, config=None
        ) as connection:
            for _ in range(SESSIONS):
                await connection.start_sftp_client()
            with pytest.raises((asyncssh.Error, OSError)):
                await connection.start_sftp_client()
            await connection.wait_closed()

    asyncio.run(asyncio.wait_for(open_many(), PATIENCE_S))


def test_there_is_no_shell_and_no_forwarding(server: SftpServer, name: str, home: Path) -> None:
    options = [part for part in server.command(name)[1:-1] if part != "-P" and part != str(server.port)]
    ssh = ["ssh", "-p", str(server.port), *options, "-i", str(server.key), f"{name}@127.0.0.1"]
    assert subprocess.run([*ssh, "id"], capture_output=True, timeout=120, check=False).stdout == b""
    forward = ["-o", "ExitOnForwardFailure=yes", "-W", f"127.0.0.1:{server.port}"]
    done = subprocess.run([*ssh[:-1], *forward, ssh[-1]], capture_output=True, timeout=120, check=False)
    assert done.returncode != 0
    assert b"SSH-2.0" not in done.stdout


def test_whoever_is_disabled_is_out_at_once_and_stays_out(server: SftpServer, name: str, home: Path) -> None:
    client = server.terminal(name, "-i", str(server.key))
    client.expect("sftp>")
    server.accounts.users.change(name, by="admin", is_enabled=False)
    client.expect(["disabled", "closed", "(?i)disconnect"])
    client.close(force=True)
    assert "denied" in server.batch(name, "ls", fails=True).lower()
    server.accounts.users.change(name, by="admin", is_enabled=True)
    server.homes.outbox.apply(name)
    assert "datasets" in server.batch(name, "ls")


def test_a_session_does_not_outlive_the_quota_with_which_it_began(server: SftpServer, name: str, home: Path) -> None:
    client = server.terminal(name, "-i", str(server.key))
    client.expect("sftp>")
    server.accounts.users.change(name, by="admin", quota_bytes=MIB)
    server.homes.outbox.apply(name)
    client.expect(["quota was changed", "closed", "(?i)disconnect"])
    client.close(force=True)
    assert "datasets" in server.batch(name, "ls")


def test_whoever_is_deleted_cannot_come_in(server: SftpServer, name: str, home: Path) -> None:
    server.accounts.users.delete(name, by="admin")
    assert "denied" in server.batch(name, "ls", fails=True).lower()


@pytest.mark.slow
def test_guessing_is_cut_off_and_the_right_user_comes_in_all_the_same(tmp_path: Path) -> None:
    deployment = SftpServer(tmp_path)
    try:
        deployment.user("alice")
        deployment.homes.sftp.set_password("alice", "the right one", by="alice")
        options = ("-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=20")
        client = deployment.terminal("alice", *options)
        tries = 0
        while client.expect(["password:", "(?i)too many|closed|disconnect"]) == 0:
            client.sendline("a wrong one")
            tries += 1
            assert tries < 20
        client.close(force=True)
        assert "datasets" in deployment.batch("alice", "ls")  # by key, at once
        assert deployment.with_password("alice", "the right one", "ls").returncode == 0
        assert b"a wrong one" not in (tmp_path / "sftp.log").read_bytes()
        assert (tmp_path / "sftp.log").read_bytes().count(b"failed") >= 6
    finally:
        deployment.close()


# --- the quota --------------------------------------------------------------------------------------
def test_an_upload_over_the_quota_stops_and_says_why(server: SftpServer, name: str, tmp_path: Path) -> None:
    home = server.user(name, quota_bytes=2 * MIB)
    local = random_file(tmp_path / "big", 5 * MIB)
    output = server.batch(name, f"put {local} datasets/big", fails=True)
    assert "may hold 2097152 bytes" in output
    assert (home / "datasets" / "big").stat().st_size <= 2 * MIB
    output = server.batch(name, "rm datasets/big", f"put {random_file(tmp_path / 'fits', MIB)} datasets/fits", "df")
    assert "2048" in output  # KiB in all, whatever the disk has


def test_one_file_too_many_is_refused_with_what_to_do(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    server.accounts.users.change(name, by="admin", quota_files=2)
    server.homes.outbox.apply(name)
    local = random_file(tmp_path / "file", 5)
    server.batch(name, f"put {local} datasets/1", "mkdir datasets/2")
    for more in (f"put {local} datasets/3", "mkdir datasets/3"):
        output = server.batch(name, more, fails=True)
        assert "may hold 2 files and folders" in output and "archive" in output
    server.batch(name, f"put {local} datasets/1", "rm datasets/1", "mkdir datasets/3")


# --- why ------------------------------------------------------------------------------------------
def test_who_is_refused_is_told_why(server: SftpServer, name: str, home: Path, tmp_path: Path) -> None:
    """OpenSSH's client itself says "Failure"."""
    (home / "datasets" / "there").write_bytes(b"x")
    (home / "datasets" / "folder").mkdir()
    (home / "datasets" / "away").symlink_to("/etc/passwd")
    local = random_file(tmp_path / "file", 5)
    for line, reason in (
        ("mkdir datasets/there", "There is something at /datasets/there already"),
        ("mkdir datasets/folder", "There is something at /datasets/folder already"),
        (f"put {local} datasets/folder/../away", "/datasets/away leads out of where it may be, by a link"),
        (f"get datasets/away {tmp_path / 'stolen'}", "/datasets/away leads out of where it may be, by a link. Remove"),
        (f"put {local} loose", "only datasets/, models/, code/ take files. Put it into one of"),
        ("rename datasets/there jobs/there", "only datasets/, models/, code/ take files"),
        ("rmdir jobs", "this folder is part of every data home and stays"),
    ):
        assert f"modelmill: {reason}" in server.batch(name, line, fails=True)
    missing = server.batch(name, "rm datasets/not-there", fails=True)
    assert "No such file" in missing and "modelmill:" not in missing


def test_reasons_end_before_they_flood_the_terminal(server: SftpServer, name: str, home: Path) -> None:
    output = server.batch(name, *["-mkdir loose"] * (MAX_LOGGED + 5))
    assert output.count("modelmill:") == MAX_LOGGED


def test_what_only_tries_says_nothing(server: SftpServer, name: str, home: Path, tmp_path: Path) -> None:
    """Folders go up twice, and into a home from its top, without a word of what is there already."""
    (tmp_path / "set").mkdir()
    random_file(tmp_path / "set" / "file", 5)
    for _ in range(2):
        assert "modelmill:" not in server.batch(name, f"put -r {tmp_path / 'set'} datasets")
        assert "modelmill:" not in server.batch(name, f"put -r {tmp_path / 'set'} datasets/set")
    (tmp_path / "up" / "datasets").mkdir(parents=True)
    random_file(tmp_path / "up" / "datasets" / "one", 5)
    assert "modelmill:" not in server.batch(name, f"put -r {tmp_path / 'up' / 'datasets'} /")
    assert (home / "datasets" / "one").exists()


# --- tricks -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path",
    [
        *["/etc/passwd", "../../../../../../etc/passwd"],
        *exhaustive("datasets/../../../../etc/passwd", "/proc/self/environ"),
    ],
)
def test_no_path_leads_out(server: SftpServer, name: str, home: Path, tmp_path: Path, path: str) -> None:
    server.batch(name, f"get {path} {tmp_path / 'stolen'}", fails=True)
    assert not (tmp_path / "stolen").exists()


def test_the_link_that_escapes_a_chroot_by_being_renamed_is_not_made(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    """The way out of a chroot that looks at paths: literally as it works there."""
    target = "../../../../../../../../etc/passwd"
    output = server.batch(
        name,
        "-mkdir a",
        "-mkdir a/../h",
        f"-ln -s {target} a/../h/l",
        "-rename a/../h/l l",
        f"-get l {tmp_path / 'stolen'}",
        "-ln a/file b/file",
        "-ln -s /etc/passwd x",
    )
    assert "links cannot be made here" in output or output.lower().count("denied") >= 2
    assert not (tmp_path / "stolen").exists()
    assert not [path for path in home.rglob("*") if path.is_symlink()]


def test_a_planted_link_is_not_followed_out_and_can_be_removed(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (home / "datasets" / "file").symlink_to(tmp_path / "outside" / "secret")
    (home / "datasets" / "folder").symlink_to(tmp_path / "outside")
    local = random_file(tmp_path / "mine", 5)
    stolen = tmp_path / "stolen"
    server.batch(name, f"get datasets/file {stolen}", fails=True)
    server.batch(name, f"get datasets/folder/secret {stolen}", fails=True)
    server.batch(name, f"put {local} datasets/file", fails=True)
    server.batch(name, f"put {local} datasets/folder/new", fails=True)
    server.batch(name, "rename datasets/folder/secret models/secret", fails=True)
    server.batch(name, "rm datasets/folder/secret", fails=True)
    server.batch(name, "mkdir datasets/folder/new", fails=True)
    assert not stolen.exists()
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
    server.batch(name, "rm datasets/file", "rm datasets/folder")
    assert list((home / "datasets").iterdir()) == []


def test_two_users_never_see_each_other(server: SftpServer, name: str, home: Path, tmp_path: Path) -> None:
    other = server.user(f"{name}-other")
    (other / "datasets" / "private").write_text("private")
    (home / "datasets" / "link").symlink_to(other / "datasets")
    relative = f"../{name}-other/datasets/private"
    for path in (
        relative,
        f"/users/{name}-other/datasets/private",
        str(other / "datasets" / "private"),
        "datasets/link/private",
    ):
        server.batch(name, f"get {path} {tmp_path / 'stolen'}", fails=True)
    assert not (tmp_path / "stolen").exists()
    assert "private" not in server.batch(name, "ls", "ls datasets")


def test_a_client_that_does_nothing_is_shown_out(tmp_path: Path) -> None:
    deployment = SftpServer(tmp_path, sftp_idle_s="5")
    try:
        deployment.user("alice")
        client = deployment.terminal("alice", "-i", str(deployment.key))
        client.expect("sftp>")
        client.expect(["Nothing was asked", "closed", "(?i)disconnect"])
        client.close(force=True)
    finally:
        deployment.close()


# --- the usual tools ----------------------------------------------------------------------------------
def scp(server: SftpServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    _, *options = server.command("nobody", "-i", str(server.key))
    return subprocess.run(
        ["scp", *options[:-1], *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_scp_ends_well_when_it_has_copied_up_and_down(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    local = random_file(tmp_path / "local", MIB)
    up = scp(server, str(local), f"{name}@127.0.0.1:datasets/file")
    assert (up.returncode, up.stderr) == (0, "") and sha(home / "datasets" / "file") == sha(local)
    down = scp(server, f"{name}@127.0.0.1:datasets/file", str(tmp_path / "back"))
    assert (down.returncode, down.stderr) == (0, "") and sha(tmp_path / "back") == sha(local)


def test_scp_copies_folders_with_times_and_modes_of_its_own(
    server: SftpServer, name: str, home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True, mode=0o700)
    (folder / "below" / "file").write_bytes(b"data")
    os.utime(folder / "below" / "file", (1_000_000_000, 1_000_000_000))
    done = scp(server, "-r", "-p", str(folder), f"{name}@127.0.0.1:datasets/")
    assert (done.returncode, done.stderr) == (0, "")
    copied = home / "datasets" / "folder" / "below" / "file"
    assert copied.read_bytes() == b"data" and copied.stat().st_mtime == 1_000_000_000
    assert copied.stat().st_mode & 0o777 == 0o640, "jobs can read it"


def test_above_the_top_of_a_home_there_is_the_top(server: SftpServer, name: str, home: Path) -> None:
    output = server.batch(name, "cd ..", "pwd", "ls ../..")
    assert "working directory: /" in output and "datasets" in output
