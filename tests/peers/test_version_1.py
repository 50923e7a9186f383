"""Pi's old files, plain lists without ids: the same messages, model and level as Pi makes of them, by position."""

import shutil
from pathlib import Path

import pytest
from tests.peers.pi import SHARED, Pi, compare, our_answers

from coppice.session.manager import SessionManager
from coppice.session.writer import Setup

pytestmark = pytest.mark.peers

OLD_FILES = sorted((SHARED / "corpus/pi").glob("*.jsonl"))


@pytest.fixture(params=OLD_FILES or [None], ids=lambda path: path.name if path else "none")
def old_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param is None:
        pytest.skip(f"{SHARED}/corpus/pi is not there (COPPICE_SHARED names the folder)")
    copy = tmp_path / "old.jsonl"
    shutil.copyfile(request.param, copy)
    return copy


def test_an_old_file_gives_pis_messages_model_and_level(pi: Pi, old_file: Path) -> None:
    (theirs,), (ours,) = pi.answers(old_file), our_answers(old_file)
    by_position = ("name", "thinkingLevel", "model", "messages")
    assert {key: ours[key] for key in by_position} == {key: theirs[key] for key in by_position}
    assert len(ours["entries"]) == len(theirs["entries"])


def test_every_reading_of_an_old_file_gives_the_same_ids(old_file: Path) -> None:
    assert our_answers(old_file) == our_answers(old_file)


def test_the_new_file_an_old_session_goes_on_in_is_the_same_in_pi_at_every_entry(
    pi: Pi, old_file: Path, tmp_path: Path
) -> None:
    before = old_file.read_bytes()
    session = SessionManager.open(old_file, setup=Setup(tmp_path / "home"))
    session.append_session_info("gone on with")
    file = session.session_file
    session.close()
    assert file is not None
    assert file != old_file
    assert old_file.read_bytes() == before
    (old,) = our_answers(old_file)
    (new,) = pi.answers(file)
    assert (new["messages"], new["entries"][:-1], new["name"]) == (old["messages"], old["entries"], "gone on with")
    compare(pi, file)
    for place in old["entries"][:: max(1, len(old["entries"]) // 8)]:
        compare(pi, file, "--leaf", place)
