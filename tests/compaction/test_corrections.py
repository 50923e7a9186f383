"""What a model's tokens are to our estimates: learning, keeping, sharing between processes, damaged files."""

import json
import multiprocessing
from pathlib import Path

import pytest

from coppice.compaction.corrections import Corrections

MODEL = "anthropic/claude-sonnet-4-5"
OTHER = "openai/gpt-5"


def stored(home: Path) -> Path:
    return home / "cache" / "token-corrections.json"


def test_an_unknown_model_is_not_corrected(tmp_path: Path) -> None:
    assert Corrections(tmp_path).ratio(MODEL) == 1.0
    assert list(tmp_path.iterdir()) == []


def test_the_first_sample_is_the_ratio_and_later_ones_move_it_by_a_quarter(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path)
    assert corrections.learn(MODEL, 10_000, 12_000)
    assert corrections.ratio(MODEL) == pytest.approx(1.2)
    assert corrections.learn(MODEL, 10_000, 16_000)
    assert corrections.ratio(MODEL) == pytest.approx(1.3)
    assert corrections.ratio(OTHER) == 1.0


def test_the_ratio_outlives_the_process_that_learned_it(tmp_path: Path) -> None:
    Corrections(tmp_path).learn(MODEL, 10_000, 12_000)
    assert Corrections(tmp_path).ratio(MODEL) == pytest.approx(1.2)


@pytest.mark.parametrize(("reported", "ratio"), [(100_000, 2.0), (600, 0.5)])
def test_a_ratio_stays_between_a_half_and_two(tmp_path: Path, reported: int, ratio: float) -> None:
    corrections = Corrections(tmp_path)
    for _ in range(5):
        corrections.learn(MODEL, 10_000, reported)
    assert corrections.ratio(MODEL) == Corrections(tmp_path).ratio(MODEL) == ratio


@pytest.mark.parametrize(("estimated", "reported"), [(10_000, 0), (499, 2_000), (2_000, 499), (0, 0), (10_000, -1)])
def test_a_request_that_tells_nothing_is_no_sample(tmp_path: Path, estimated: int, reported: int) -> None:
    corrections = Corrections(tmp_path)
    assert not corrections.learn(MODEL, estimated, reported)
    assert corrections.ratio(MODEL) == 1.0
    assert not stored(tmp_path).exists()


def test_the_file_and_its_directory_are_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Corrections(home).learn(MODEL, 10_000, 12_000)
    assert stored(home).stat().st_mode & 0o777 == 0o600
    assert stored(home).parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in stored(home).parent.iterdir()] == ["token-corrections.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"m": 1}',
        b'{"m": {"ratio": NaN, "samples": 1}}',
        b'{"m": {"ratio": 40, "samples": 1}}',
        b'{"m": {"ratio": 1.5, "samples": 1}}' + b" " * (1 << 20),
        b"[" * 100_000,
    ],
    ids=["empty", "torn", "a list", "not UTF-8", "a number", "NaN", "out of bounds", "too large", "deep"],
)
def test_a_damaged_file_is_ignored_and_built_anew(tmp_path: Path, content: bytes) -> None:
    stored(tmp_path).parent.mkdir(mode=0o700)
    stored(tmp_path).write_bytes(content)
    corrections = Corrections(tmp_path)
    assert corrections.ratio("m") == 1.0
    assert corrections.learn(MODEL, 10_000, 12_000)
    assert json.loads(stored(tmp_path).read_bytes()) == {MODEL: {"ratio": 1.2, "samples": 1}}


def test_where_the_file_cannot_be_written_the_ratio_holds_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    corrections = Corrections(tmp_path)
    assert not corrections.learn(MODEL, 10_000, 12_000)
    assert corrections.ratio(MODEL) == pytest.approx(1.2)


def test_two_at_once_keep_what_each_learned(tmp_path: Path) -> None:
    one, other = Corrections(tmp_path), Corrections(tmp_path)
    one.learn(MODEL, 10_000, 12_000)
    other.learn(OTHER, 10_000, 8_000)
    assert other.ratio(MODEL) == pytest.approx(1.2)
    assert {model: Corrections(tmp_path).ratio(model) for model in (MODEL, OTHER)} == {
        MODEL: pytest.approx(1.2),
        OTHER: pytest.approx(0.8),
    }


def learn_often(home: Path, model: str) -> None:
    corrections = Corrections(home)
    for _ in range(20):
        corrections.learn(model, 10_000, 12_000)


def test_processes_that_learn_at_the_same_moment_leave_a_whole_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=learn_often, args=(tmp_path, f"provider/{name}")) for name in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    known = json.loads(stored(tmp_path).read_bytes())
    assert known
    assert {model: kept["ratio"] for model, kept in known.items()} == {model: pytest.approx(1.2) for model in known}
    assert list(stored(tmp_path).parent.glob(".*")) == []


def test_the_first_replies_of_a_model_all_teach_and_later_ones_now_and_then(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path)
    wanted = [number for number in range(1, 33) if corrections.wants_sample(MODEL)]
    assert wanted == [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32]
    assert corrections.wants_sample(OTHER)
