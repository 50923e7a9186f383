"""Real processes killed at any moment and real full disks: what was announced is there, and nothing else is broken."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from coppice.format.messages import EntryId, UserMessage
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from tests.session.build import chain, objects, session_file

PROGRAM = Path(__file__).with_name("program.py")


def started(task: str, *paths: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROGRAM), task, *map(str, paths)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_after(process: "subprocess.Popen[str]", lines: int) -> list[str]:
    """Kill -9 right after the process said `lines` lines, wherever it is then; the whole lines it said in all."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    said += process.stdout.read().splitlines(keepends=True)
    assert process.wait() == -9, process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    return [line[:-1] for line in said if line.endswith("\n")]


@pytest.mark.slow
@pytest.mark.case("P03")
@pytest.mark.case("P05")
def test_every_entry_announced_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    path, home = session_file(tmp_path / "s.jsonl", chain(2)), tmp_path / "home"
    setup, moments = Setup(home=home, sync=False), random.Random(7)
    for _ in range(12):
        before = path.read_bytes()
        said = killed_after(started("append", path, home), moments.randrange(1, 60))
        assert path.read_bytes().startswith(before)
        session = SessionManager.open(path, setup=setup)  # no cleaning up after a dead holder
        notices = session.take_notices()
        assert all("not a JSON object" in notice for notice in notices)
        for word in said:
            if not word.startswith("leaf "):
                assert session.get_entry(EntryId(word)) is not None, word
        messages = session.build_session_context().messages
        session.append_message(UserMessage("after"))
        session.close()
        again = SessionManager.open(path, setup=setup)
        assert again.build_session_context().messages[:-1] == messages
        assert len(again.take_notices()) == len(notices)
        again.close()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["fork", "born"])
def test_a_kill_while_a_file_is_made_leaves_no_half_file_under_a_session_name(task: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    source = session_file(tmp_path / "s.jsonl", chain(3000))
    setup, moments = Setup(home=home, sync=False), random.Random(11)
    announced: set[str] = set()
    for _ in range(8):
        paths = (source, home) if task == "fork" else (home, tmp_path)
        announced |= set(killed_after(started(task, *paths), moments.randrange(1, 9)))
    files = set(map(str, home.rglob("*.jsonl")))
    assert announced <= files
    for file in files:
        session = SessionManager.open(file, mode="read", setup=setup)
        assert (len(session.get_branch()), session.take_notices()) == (3000 if task == "fork" else 1, [])
        session.close()
        assert os.stat(file).st_mode & 0o777 == 0o600
    assert len(SessionManager.list_all(home=home)) == len(files)


@pytest.mark.case("P04")
def test_on_a_full_disk_each_turn_that_is_not_stored_is_told_and_the_rest_loads(tmp_path: Path) -> None:
    path, home = session_file(tmp_path / "s.jsonl", chain(4)), tmp_path / "home"
    before = path.read_bytes()
    ran = subprocess.run(
        [sys.executable, PROGRAM, "fill", path, home], capture_output=True, text=True, timeout=60, check=True
    )
    said = ran.stdout.splitlines()
    failed = f"failed StorageFailure {path}: not stored: "
    assert [line.split()[0] for line in said] == [
        "stored",
        "failed",
        "failed",
        "failed",
        "failed",
        "no",
        "stored",
        "notice",
    ]
    assert said[1].startswith(failed + "only ")
    assert said[1].endswith("bytes were written (disk full?)")
    assert said[2:5] == [failed + "File too large"] * 3
    assert said[5] == "no fork StorageFailure"
    assert "another program" not in ran.stdout
    stored = [line.split()[1] for line in said if line.startswith("stored")]
    assert path.read_bytes().startswith(before)
    session = SessionManager.open(path, setup=Setup(home=home))
    assert [each.id for each in session.get_branch()] == [*(each["id"] for each in chain(4)), *stored]
    [notice] = session.take_notices()
    assert notice.startswith(f"{path}:7: not a JSON object")
    assert said[7] == f"notice {notice}"
    session.close()
    assert list(home.rglob("*.jsonl")) == []


@pytest.mark.slow
@pytest.mark.case("P01")
def test_a_session_cut_at_every_byte_opens_goes_on_and_reopens(tmp_path: Path) -> None:
    whole = session_file(tmp_path / "whole.jsonl", chain(5)).read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == 0x0A]
    setup = Setup(home=tmp_path / "home", sync=False)
    path = tmp_path / "s.jsonl"
    for size in range(ends[0] + 1, len(whole) + 1):
        path.write_bytes(whole[:size])
        path.chmod(0o600)
        complete = sum(end <= size for end in ends) - 1
        clean = size in (end + extra for end in ends for extra in (0, 1))
        session = SessionManager.open(path, setup=setup)
        assert [each.id for each in session.get_branch()] == [each["id"] for each in chain(complete)]
        assert len(session.take_notices()) == (0 if clean else 1)
        new = session.append_message(UserMessage("go on", 1))
        session.close()
        assert path.read_bytes().startswith(whole[:size])
        again = SessionManager.open(path, setup=setup)
        assert [each.id for each in again.get_branch()] == [*(each["id"] for each in chain(complete)), new]
        assert len(again.take_notices()) == (0 if clean else 1)
        again.close()


@pytest.mark.case("P05")
def test_two_processes_that_share_a_session_lose_nothing(tmp_path: Path) -> None:
    path, home = session_file(tmp_path / "s.jsonl", chain(2)), tmp_path / "home"
    first = started("append", path, home)
    assert first.stdout is not None
    assert first.stdout.readline()
    ours = SessionManager.open(path, mode="shared", setup=Setup(home=home))
    mine = [ours.append_message(UserMessage(f"mine {number}")) for number in range(30)]
    theirs = [word for word in killed_after(first, 20) if not word.startswith("leaf ")]
    other = SessionManager.open(path, mode="shared", setup=Setup(home=home))  # surely between two appends of ours
    theirs.append(other.append_message(UserMessage("from the side")))
    other.close()
    mine.append(ours.append_message(UserMessage("mine, last")))
    ids = [each["id"] for each in objects(path)[1:]]
    assert len(set(ids)) == len(ids)
    assert {*mine, *theirs} <= set(ids)
    assert [each.id for each in ours.get_branch()][-31:] == mine
    assert any("another program appended" in notice for notice in ours.take_notices())
    ours.close()
    again = SessionManager.open(path, setup=Setup(home=home))
    assert any("written by two programs at once" in notice for notice in again.take_notices())
