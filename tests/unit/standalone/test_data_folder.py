"""What is in the way of starting is said in one sentence, before any process exists."""

from __future__ import annotations

import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.up.command import parse_workers
from app.kit.cli.command import CannotStart
from app.kit.files import lasting_key
from app.settings import load_settings
from app.standalone import data_folder as folders
from app.standalone.data_folder import DataFolder, Lock
from app.standalone.launch import Launch
from app.standalone.ports import free_port, require_free
from app.standalone.processes import CONTROLLER, SCHEDULER
from app.standalone.stack import Plan, launch_of, parts
from app.standalone.valkey import valkey_part
from app.standalone.valkey_server import Valkey


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "data", tmp_path / "data" / "run")
    made.prepare()
    return made


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match=r"file/data cannot be written: Not a directory"):
        DataFolder(tmp_path / "file" / "data", tmp_path / "file" / "data" / "run").prepare()


def test_a_disk_that_is_nearly_full_is_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(CannotStart, match="nearly full"):
        DataFolder(tmp_path, tmp_path / "run").prepare()


def test_the_secret_key_is_made_once_and_is_private(folder):
    key = lasting_key(folder.root)

    assert lasting_key(folder.root) == key
    assert len(key) == 64
    assert stat.S_IMODE((folder.root / "secret_key").stat().st_mode) == 0o600


def test_the_owner_of_a_folder_is_the_stack_that_runs_in_it(folder):
    assert Lock.owner(folder.run) is None
    lock = Lock(folder)
    assert Lock.owner(folder.run) == lock.pid
    lock.write({"pid": 4711})
    assert Lock.owner(folder.run) == 4711
    lock.release()
    folder.run.joinpath("lock").write_text('{"pid": 4711}')
    assert Lock.owner(folder.run) is None


def test_a_second_stack_in_the_folder_is_refused_and_told_of_the_first(folder):
    lock = Lock(folder)
    lock.write({"pid": 4711, "url": "http://127.0.0.1:8080"})

    with pytest.raises(CannotStart, match=r"already runs .*process 4711, http://127.0.0.1:8080"):
        Lock(folder)

    lock.release()
    Lock(folder).release()


def test_the_last_logs_stay_beside_the_new_one(folder):
    for number in range(6):
        folder.new_log("web").write_text(str(number))

    assert {path.name: path.read_text() for path in folder.logs.iterdir()} == {
        "web.log": "5",
        "web.log.1": "4",
        "web.log.2": "3",
        "web.log.3": "2",
    }


def test_a_taken_port_is_said_so():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(CannotStart, match=f"port {port} on 127.0.0.1 is taken"):
            require_free("127.0.0.1", port)


def test_a_port_that_was_just_left_is_free():
    require_free("127.0.0.1", free_port())


def test_an_address_that_is_not_ours_is_said_so():
    with pytest.raises(CannotStart, match=r"cannot listen on 192\.0\.2\.1"):
        require_free("192.0.2.1", 8080)


def test_workers_are_counted_per_stage_and_default_to_one():
    assert parse_workers("bie=3") == {"onnx": 1, "bie": 3, "nef": 1}


@pytest.mark.parametrize("text", ["bie", "bie=", "bie=-1", "bie=x", "cat=1", "bie=1000"])
def test_workers_that_make_no_sense_are_refused(text):
    with pytest.raises(CannotStart, match="not understood"):
        parse_workers(text)


def queues_of(plan: Plan) -> dict[str, list[str]]:
    return {part.name: part.call.arguments.get("queues", []) for part in parts(plan, 8080, 2022) if part.call}


def test_few_processes_serve_every_queue_and_as_many_jobs_of_a_stage_as_were_chosen(folder):
    served = queues_of(Plan(folder, "127.0.0.1", 8080, {"onnx": 1, "bie": 3, "nef": 0}))

    assert set(served) == {"web", "control", "worker-0", "worker-1", "worker-2", "sftp"}
    assert [served[f"worker-{number}"] for number in range(3)] == [["onnx", "bie"], ["bie"], ["bie"]]
    of_control = {queue.value for process in (SCHEDULER, CONTROLLER) for queue in process.queues}
    assert set(served["control"]) == of_control


def test_a_stack_without_workers_has_no_process_for_them(folder):
    served = queues_of(Plan(folder, "127.0.0.1", 8080, {"onnx": 0, "bie": 0, "nef": 0}))
    assert set(served) == {"web", "control", "sftp"}


def test_a_launch_is_the_same_once_written_and_read(folder):
    launch = replace(
        launch_of(Plan(folder, "127.0.0.1", 0, {"onnx": 1, "bie": 1, "nef": 1})), after=("a note",), token="t"
    )
    assert Launch.from_json(launch.to_json()) == launch


def test_training_is_scheduled_where_there_is_a_cluster_to_train_on(folder, monkeypatch):
    monkeypatch.setenv("MODELMILL_RAY_ADDRESS", "http://ray.host:8265")
    load_settings.cache_clear()
    try:
        plan = Plan(folder, "127.0.0.1", 8080, {"onnx": 1, "bie": 1, "nef": 1})
        served = queues_of(plan)
    finally:
        monkeypatch.undo()
        load_settings.cache_clear()

    assert {"training", "training_results"} <= set(served["control"])


def test_the_valkey_keeps_nothing_and_its_password_is_private(folder):
    valkey = Valkey.at(free_port())
    config = Path(valkey_part(valkey, folder.run).command[1])

    assert 'save ""\nappendonly no\n' in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert not valkey.is_up()
