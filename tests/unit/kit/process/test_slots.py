from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.kit.process.slots import InFlight, take_slot

HOLD = """
import sys, time
from pathlib import Path
from app.kit.process.slots import InFlight, take_slot
slot, _ = take_slot(Path(sys.argv[1]), "bie", "here")
slot.write(InFlight("broker-1", "job-1", "claim-1", "/work/job-1"))
print(slot.name, flush=True)
time.sleep(60)
"""


def hold(run: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_two_workers_have_two_slots(tmp_path: Path) -> None:
    other, name = hold(tmp_path)
    slot, left = take_slot(tmp_path, "bie", "here")
    end(other)
    assert name == "here/bie/0"
    assert slot.name == "here/bie/1"
    assert left == []
    slot.release()


def test_whoever_takes_the_slot_of_a_killed_worker_learns_what_died_with_it(tmp_path: Path) -> None:
    other, _ = hold(tmp_path)
    end(other)
    slot, left = take_slot(tmp_path, "bie", "here")
    assert slot.name == "here/bie/0"
    assert [work.doing for work in left] == [InFlight("broker-1", "job-1", "claim-1", "/work/job-1")]
    slot.release()


@pytest.mark.slow
def test_what_is_not_settled_is_found_again_by_the_next_worker(tmp_path: Path) -> None:
    first, _ = hold(tmp_path)
    second, _ = hold(tmp_path)
    end(first)
    end(second)
    slot, left = take_slot(tmp_path, "bie", "here")
    left[1].settled()
    slot.release()  # died before it settled the first
    again, left = take_slot(tmp_path, "bie", "here")
    assert [work.slot.name for work in left] == ["here/bie/0"]
    again.release()


@pytest.mark.slow
def test_what_died_in_a_higher_slot_is_found_too(tmp_path: Path) -> None:
    first, _ = hold(tmp_path)
    second, name = hold(tmp_path)
    end(second)
    assert name == "here/bie/1"
    slot, left = take_slot(tmp_path, "bie", "here")
    end(first)
    assert slot.name == "here/bie/1"
    assert len(left) == 1
    slot.release()


def test_a_slot_that_was_cut_off_while_written_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "slots").mkdir()
    (tmp_path / "slots" / "bie-0.json").write_text('{"broker_id": "x", "rec')
    slot, left = take_slot(tmp_path, "bie", "here")
    assert left == []
    slot.release()


def test_of_a_slot_that_was_written_twice_the_last_counts(tmp_path: Path) -> None:
    slot, _ = take_slot(tmp_path, "bie", "here")
    for doing in (InFlight("broker-1", "a-job", "a-claim", "/a/long/path", "next"), InFlight("broker-1")):
        slot.write(doing)
        assert slot.read() == doing
    slot.release()


def test_queues_have_slots_of_their_own(tmp_path: Path) -> None:
    bie, _ = take_slot(tmp_path, "bie", "here")
    nef, _ = take_slot(tmp_path, "nef", "here")
    assert (bie.name, nef.name) == ("here/bie/0", "here/nef/0")
    bie.release()
    nef.release()
