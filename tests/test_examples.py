"""The programs in examples/ run without a key and print what is written here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT, SOURCE

EXAMPLES = ROOT / "examples"

PRINTED = {
    "embed.py": """\
I list `.`.
1 entry: `notes.txt`.

Kept in SESSION
""",
    "custom_tool.py": """\
stock gave 120
stock failed: there is no part 'gear'; there are bolt, nut
The model was told of: ['stock']
It was sent 4 messages the second time.
""",
    "branch_and_compare.py": """\
small -> Sieve
large -> Logbook
2 branches, 6 messages in the file, 4 on this one
""",
    "resume.py": """\
Beginning with 0 messages.
Now there are 2 messages.
""",
}


def run(name: str, tmp_path: Path) -> str:
    """What an example prints, the path of its session left out; without any key, in a directory with one file."""
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    (project / "notes.txt").write_text("hello\n")
    environ = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=project,
        env=environ | {"COPPICE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for session in (tmp_path / "home").glob("sessions/*/*.jsonl"):
        done.stdout = done.stdout.replace(str(session), "SESSION")
    return done.stdout


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    assert run(name, tmp_path) == PRINTED[name]


def test_resuming_goes_on_in_the_same_session(tmp_path: Path) -> None:
    run("resume.py", tmp_path)
    assert run("resume.py", tmp_path) == "Going on after 2 messages.\nNow there are 4 messages.\n"
    assert len(list((tmp_path / "home").glob("sessions/*/*.jsonl"))) == 1


def test_every_example_is_run_here() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(PRINTED)
