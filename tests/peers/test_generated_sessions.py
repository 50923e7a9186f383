"""Files of the shared generators: at every entry coppice answers what Pi answers."""

import json
from pathlib import Path

import pytest
from tests.peers.conftest import Generate
from tests.peers.pi import KEYS, Pi, compare, our_lines

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(
    "words",
    [
        "--entries 1",
        "--entries 7 --branches 1",
        "--entries 60 --branches 3 --seed 3",
        "--entries 200 --branches 2 --compactions 1",
        "--entries 400 --branches 9 --compactions 4 --seed 5 --bytes-per-tool-result 90",
        "--entries 1000 --branches 20 --compactions 8 --seed 6 --bytes-per-tool-result 40 --no-thinking",
    ],
)
def test_a_realistic_session_is_the_same_at_every_entry(pi: Pi, generate: Generate, tmp_path: Path, words: str) -> None:
    file = tmp_path / "session.jsonl"
    generate("make_session.py", *words.split(), "--out", str(file))
    assert compare(pi, file, "--all") == int(words.split()[1]) + 2


def test_a_session_of_ten_thousand_entries_is_the_same_where_it_opens_at_old_places_and_before_the_first_entry(
    pi: Pi, generate: Generate, tmp_path: Path
) -> None:
    file = tmp_path / "session.jsonl"
    generate("make_session.py", *"--entries 10000 --branches 50 --compactions 10".split(), "--out", str(file))
    entries = [json.loads(line) for line in file.read_text().split("\n")[1:-1]]
    compactions = [entry["id"] for entry in entries if entry["type"] == "compaction"]
    places = ["null", entries[0]["id"], entries[4321]["id"], compactions[0], compactions[5], entries[-1]["id"]]
    compare(pi, file)
    for place in places:
        compare(pi, file, "--leaf", place)


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_every_kind_of_entry_in_every_legal_place_is_the_same_at_every_entry(
    pi: Pi, generate: Generate, tmp_path: Path, first: int
) -> None:
    generate("make_variety.py", str(tmp_path), "10", str(first))
    files = sorted(tmp_path.glob("*.jsonl"))
    assert len(files) == 10
    for file in files:
        compare(pi, file, "--all")


def test_an_answer_has_pis_keys_in_pis_order(generate: Generate, tmp_path: Path) -> None:
    generate("make_variety.py", str(tmp_path), "1")
    lines = our_lines(tmp_path / "variety-0000.jsonl", "--all")
    assert [list(json.loads(line)) for line in lines] == [KEYS] * len(lines)
