"""Which paths a task may name: every trick is refused with the field's name, with and without openat2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.homes.errors import PathRefused
from app.homes.model import HomesOptions, Kind
from app.homes.path_openers import Opener
from app.homes.path_rules import FIELDS, PathRules
from app.homes.rooted_directory import RootedDirectory
from tests.harness.name_swap import outcomes, swapping

MINE = "/private/users/alice"
DATA = ("train_file", "val_file")
SECRET = b"bob's"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The storage, mounted here under another name than tasks call it."""
    for folder in (
        "common/datasets",
        "common/code/verl",
        "common/db",
        "users/alice/datasets",
        "users/alice/models/m",
        "users/alice/jobs/j",
        "users/bob/datasets",
        "users/bob/models",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for file in (
        "common/datasets/d",
        "common/db/state.sqlite3",
        "users/alice/datasets/d",
        "users/alice/models/w",
        "users/alice/jobs/j/w",
    ):
        (tmp_path / file).write_bytes(b"fine")
    (tmp_path / "users/bob/datasets/d").write_bytes(SECRET)
    (tmp_path / "users/bob/models/w").write_bytes(SECRET)
    return tmp_path


@pytest.fixture
def rules(root: Path, opener: Opener) -> PathRules:
    return PathRules(HomesOptions(root), opener=opener)


def refusal(rules: PathRules, field: str, text: str) -> str:
    """Why the field refuses it; that it names the field in message and detail is checked in passing."""
    try:
        rules.check("alice", field, text)
    except PathRefused as refused:
        assert refused.status == 422
        assert refused.message.startswith(f"{field}: ")
        [problem] = refused.detail["problems"]
        assert problem["at"] == field
        return str(problem["problem"])
    pytest.fail(f"{field} takes {text!a}")


@pytest.mark.parametrize("field", DATA)
def test_data_may_lie_in_common_and_at_home(rules: PathRules, field: str) -> None:
    for text in ("/private/common/datasets/d", f"{MINE}/datasets/d", f"{MINE}/jobs/j/w"):
        checked = rules.check("alice", field, text)
        assert (checked.text, checked.kind, checked.size_bytes) == (text, Kind.FILE, 4)
        fd = checked.open()
        assert os.read(fd, 10) == b"fine"
        os.close(fd)
        assert checked.here.read_bytes() == b"fine"


@pytest.mark.parametrize(
    "text", [f"{MINE}/models/m", f"{MINE}/models/m/", f"{MINE}/models/w", "/private/common/datasets/d"]
)
def test_a_model_may_lie_in_common_and_in_ones_models(rules: PathRules, text: str) -> None:
    checked = rules.check("alice", "model_path", text)
    fd = checked.open()
    assert os.path.samestat(os.fstat(fd), checked.here.stat())
    os.close(fd)


def test_a_model_may_not_lie_elsewhere_at_home(rules: PathRules) -> None:
    assert "must lie under /private/common/ or /private/users/alice/models/" in refusal(
        rules, "model_path", f"{MINE}/jobs/j/w"
    )


def test_code_may_lie_in_common_only(rules: PathRules) -> None:
    assert rules.check("alice", "code_path", "/private/common/code/verl").kind is Kind.FOLDER
    assert refusal(rules, "code_path", f"{MINE}/models/m") == "it must lie under /private/common/"


@pytest.mark.parametrize("logical", ["/private", "/private/", "/", "/mnt/gpfs/argus"])
def test_what_the_storage_is_called_is_a_setting(root: Path, logical: str) -> None:
    rules = PathRules(HomesOptions(root, logical_root=logical))
    prefix = logical.rstrip("/")
    assert rules.check("alice", "train_file", f"{prefix}/users/alice/datasets/d").size_bytes == 4
    for text in (
        f"{prefix}/users/bob/datasets/d",
        f"{prefix}x/users/alice/datasets/d",
        str(root / "users/alice/datasets/d"),
    ):
        with pytest.raises(PathRefused):
            rules.check("alice", "train_file", text)


TRICKS = [
    "",
    "/",
    "/private",
    "/private/common",
    "/private/users/alice",
    "datasets/d",
    "users/alice/datasets/d",
    "/etc/passwd",
    "/private/../etc/passwd",
    "file:///private/common/datasets/d",
    "s3://bucket/x",
    "~/d",
    "/private/users/bob/datasets/d",
    "/private/users/bob/models/w",
    "/private/users/alicex/d",
    "/private/users/Alice/d",
    f"{MINE}/../bob/models/w",
    f"{MINE}/models/../../bob/models/w",
    "/private/common/../users/bob/models/w",
    f"{MINE}//models/w",
    f"/{MINE}/models/w",
    f"{MINE}/./models/w",
    f"{MINE}/models/w/.",
    f"{MINE}/models/..",
    f"{MINE}/models/w\0",
    f"{MINE}/models/w\0.txt",
    f"{MINE}/models/w\n",
    f"{MINE}/models/\tw",
    f"{MINE}/models/\x7fw",
    f"{MINE}\\models\\w",
    f"{MINE}/models\\..\\w",
    f" {MINE}/models/w",
    f"{MINE}/models/w ",
    f"{MINE}/models/w\u3000",
    f"{MINE}/models／w",
    f"{MINE}/models⁄w",
    f"{MINE}/models∕w",
    f"{MINE}/．．/bob",
    f"{MINE}/‥/bob",
    f"{MINE}/models/w․txt",
    f"{MINE}/models/\u202ew",
    f"{MINE}/models/w\u200b",
    f"{MINE}/\ufeffmodels/w",
    f"{MINE}/models/w\u2066",
    f"{MINE}/models/\u00adw",
    f"{MINE}/models/\ud800",
    f"{MINE}/models/\udcff",
    f"{MINE}/models/{'x' * 256}",
    MINE + "/models/" + "x/" * 3000 + "w",
    "/private/common/db/state.sqlite3",
    "/private/common/logs/x",
    "/private/common/db",
    f"{MINE}/models/nothing",
    f"{MINE}/models/w/below",
    "/private/common/nothing/at/all",
]


@pytest.mark.parametrize("field", FIELDS)
def test_every_trick_is_refused_by_the_fields_name(rules: PathRules, field: str) -> None:
    for text in TRICKS:
        assert refusal(rules, field, text), ascii(text)


def test_whether_another_users_file_exists_is_not_told(rules: PathRules) -> None:
    reasons = {
        refusal(rules, "train_file", f"/private/users/{there}")
        for there in ("bob/datasets/d", "bob/nothing", "nobody-at-all/d")
    }
    assert len(reasons) == 1


@pytest.mark.parametrize(
    "target",
    [
        "../../bob/datasets/d",
        "/etc/passwd",
        "{root}/users/bob/datasets/d",
        "/private/users/bob/datasets/d",
        "../../nowhere",
    ],
)
def test_a_link_out_is_refused_as_a_file_and_as_a_folder(rules: PathRules, root: Path, target: str) -> None:
    (root / "users/alice/datasets/file").symlink_to(target.format(root=root))
    (root / "users/alice/datasets/folder").symlink_to(str(Path(target.format(root=root)).parent))
    assert "by a link" in refusal(rules, "train_file", f"{MINE}/datasets/file")
    assert "by a link" in refusal(rules, "train_file", f"{MINE}/datasets/folder/d")


def test_a_link_from_the_models_into_a_job_leads_out_of_the_models(rules: PathRules, root: Path) -> None:
    (root / "users/alice/models/l").symlink_to("../jobs/j/w")
    assert "by a link" in refusal(rules, "model_path", f"{MINE}/models/l")


@pytest.mark.parametrize("linked", ["users", "users/alice", "common", "users/alice/models"])
def test_a_home_that_is_itself_a_link_is_refused(rules: PathRules, root: Path, linked: str) -> None:
    (root / linked).rename(root / "moved")
    (root / linked).symlink_to(root / "moved")
    assert "by a link" in refusal(
        rules, "model_path", "/private/common/datasets/d" if linked == "common" else f"{MINE}/models/w"
    )


def test_only_the_wanted_kind_is_taken(rules: PathRules, root: Path) -> None:
    os.mkfifo(root / "users/alice/models/pipe")
    assert "is no file" in refusal(rules, "train_file", f"{MINE}/models/pipe")
    assert "is no file or a folder" in refusal(rules, "model_path", f"{MINE}/models/pipe")
    assert "is no file but a folder" in refusal(rules, "train_file", f"{MINE}/models/m")
    assert "is no folder but a file" in refusal(rules, "code_path", "/private/common/datasets/d")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused(rules: PathRules, root: Path) -> None:
    try:
        os.mknod(root / "users/alice/models/zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("not in this container")
    assert "is no file or a folder" in refusal(rules, "model_path", f"{MINE}/models/zero")


def test_what_was_fine_and_was_swapped_since_is_not_opened(rules: PathRules, root: Path) -> None:
    checked = rules.check("alice", "train_file", f"{MINE}/datasets/d")
    (root / "users/alice/datasets").rename(root / "users/alice/aside")
    (root / "users/alice/datasets").symlink_to("../bob/datasets")
    with pytest.raises(PathRefused, match=r"train_file: .* by a link"):
        checked.open()
    (root / "users/alice/datasets").unlink()
    (root / "users/alice/datasets").mkdir()
    os.mkfifo(root / "users/alice/datasets/d")
    with pytest.raises(PathRefused, match=r"train_file: .* is no file"):
        checked.open()
    with pytest.raises(PathRefused):
        rules.check("alice", "train_file", f"{MINE}/datasets/d")


def test_what_becomes_a_pipe_while_it_is_opened_is_not_given_out(
    rules: PathRules, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = rules.check("alice", "train_file", f"{MINE}/datasets/d")
    stat = RootedDirectory.stat

    def stat_and_swap(self: RootedDirectory, path: str) -> os.stat_result:
        status = stat(self, path)
        checked.here.unlink()
        os.mkfifo(checked.here)
        return status

    monkeypatch.setattr(RootedDirectory, "stat", stat_and_swap)
    with pytest.raises(PathRefused, match="is no file"):
        checked.open()


@pytest.mark.slow
def test_no_swap_between_check_and_use_shows_a_byte_from_outside(rules: PathRules, root: Path) -> None:
    (root / "users/alice/evil").symlink_to("../bob/datasets")

    def look() -> object:
        try:
            fd = rules.check("alice", "train_file", f"{MINE}/datasets/d").open()
        except PathRefused as error:
            assert "by a link" in error.message
            return PathRefused
        try:
            return os.read(fd, 100)
        finally:
            os.close(fd)

    with swapping(root / "users/alice/datasets", root / "users/alice/evil"):
        assert outcomes(look, at_least=2000, kinds=2) == {b"fine", PathRefused}


def test_a_refused_open_leaves_no_descriptor(rules: PathRules, root: Path) -> None:
    os.mkfifo(root / "users/alice/datasets/pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for text in (f"{MINE}/datasets/pipe", f"{MINE}/datasets/no", "/etc/passwd"):
        refusal(rules, "train_file", text)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
