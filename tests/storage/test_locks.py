"""The holder lock: one writer, told by name; dead ones hold nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coppice.errors import Holder, SessionHeld, StorageFailure
from coppice.storage.locks import HolderLock, holder_of

HOLD = """
import os, sys
from pathlib import Path
from coppice.storage.locks import HolderLock
lock = HolderLock.take(Path(sys.argv[1]), os.open(sys.argv[2], os.O_RDWR), Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    made = tmp_path / "s.jsonl"
    made.write_bytes(b"")
    return made


def take(home: Path, session: Path) -> HolderLock:
    fd = os.open(session, os.O_RDWR)
    try:
        return HolderLock.take(home, fd, session)
    finally:
        os.close(fd)


@pytest.mark.case("P05")
def test_a_second_writer_is_told_who_holds_the_session_and_a_dead_one_holds_nothing(
    tmp_path: Path, session: Path
) -> None:
    home = tmp_path / "home"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, home, session], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SessionHeld) as refused:
            take(home, session)
        assert refused.value.holder.pid == other.pid
        assert f"process {other.pid}" in str(refused.value)
        assert "--fork" in str(refused.value)
        assert holder_of(home, session) == refused.value.holder
        other.kill()
    assert holder_of(home, session) is None
    take(home, session).release()


@pytest.mark.case("P30")
def test_the_lock_lies_under_the_home_and_nobody_else_can_read_it(tmp_path: Path, session: Path) -> None:
    lock = take(tmp_path / "home", session)
    status = session.stat()
    file = tmp_path / "home" / "locks" / f"{status.st_dev}-{status.st_ino}"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert b'"pid"' in file.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["home", "s.jsonl"]
    lock.release()
    lock.release()


def test_a_record_that_cannot_be_read_still_refuses(tmp_path: Path, session: Path) -> None:
    lock = take(tmp_path / "home", session)
    [file] = (tmp_path / "home" / "locks").iterdir()
    for odd in (b"", b"[]", b'{"pid":"x"}', b'{"pid":1,"host":"a\\u001b[31m","start":"s","command":"c"}'):
        file.write_bytes(odd)
        with pytest.raises(SessionHeld) as refused:
            take(tmp_path / "home", session)
        assert "\x1b" not in str(refused.value)
    assert refused.value.holder == Holder(1, "a[31m", "s", "c")
    lock.release()


def test_a_lock_that_cannot_be_opened_is_a_storage_failure(tmp_path: Path, session: Path) -> None:
    status = session.stat()
    (tmp_path / "home" / "locks" / f"{status.st_dev}-{status.st_ino}").mkdir(parents=True)
    with pytest.raises(StorageFailure, match="the lock cannot be opened"):
        take(tmp_path / "home", session)
