"""What starting coppice loads: nothing that is not needed yet. Each test asks a new process."""

import subprocess
import sys
from pathlib import Path

import pytest

import coppice

SOURCE = Path(coppice.__file__).parents[1]
HEAVY = frozenset(
    {"pydantic_ai", "pydantic", "textual", "httpx", "sqlite3", "asyncio", "openai", "anthropic", "google"}
)


def loaded_by(*words: str) -> frozenset[str]:
    """Top-level names of what `python WORDS` imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return frozenset(line.rpartition("|")[2].strip().partition(".")[0] for line in lines)


def test_importing_coppice_loads_no_heavy_library() -> None:
    assert loaded_by("-c", "import coppice") & (HEAVY | {"msgspec", "json", "dataclasses"}) == frozenset()


def test_asking_for_an_error_class_loads_no_heavy_library() -> None:
    assert loaded_by("-c", "from coppice import LeafMoved") & HEAVY == frozenset()


def test_the_version_is_told_without_loading_msgspec_or_the_command_line() -> None:
    loaded = loaded_by("-m", "coppice", "--version")
    assert loaded & (HEAVY | {"msgspec", "argparse", "json", "rich"}) == frozenset()


def test_the_version_is_printed_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "coppice", "--version"],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"coppice {coppice.__version__}\n", "")


def test_a_conversation_knows_its_models_name_without_loading_the_providers_library(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from coppice import AgentSession, Wishes; from coppice.app.models import "
        "check_model; check_model('openai/some', environ={'OPENAI_API_KEY': 'k'}); home = Path(sys.argv[1]); "
        "session = AgentSession.create(home, Wishes(model='openai/some'), home=home); print(session.model_name)"
    )
    heavy = HEAVY - {"asyncio"}  # what runs an agent
    assert loaded_by("-c", program, str(tmp_path)) & heavy == frozenset()


@pytest.mark.parametrize("name", coppice.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(coppice, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Sesion'"):
        _ = coppice.Sesion  # pyright: ignore[reportAttributeAccessIssue]  # the misspelling is the test
    assert "SessionManager" in dir(coppice)
