"""Context files and the system prompt: which files count, in which order, read anew for each run."""

from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession, Wishes
from coppice.app.resources import MAX_BYTES, context_files
from coppice.app.system_prompt import PromptParts
from coppice.providers.scripted import ScriptedModel, say
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    """A home and a directory four levels deep."""
    home, deep = tmp_path / "home", tmp_path / "work" / "project" / "src"
    home.mkdir()
    deep.mkdir(parents=True)
    return home, deep


def found(home: Path, cwd: Path, below: Path) -> list[tuple[str, str]]:
    files = context_files(cwd, home)
    return [(str(file.path.relative_to(below)), file.text) for file in files if file.path.is_relative_to(below)]


def test_the_homes_file_comes_first_then_the_parents_from_the_root_down(
    place: tuple[Path, Path], tmp_path: Path
) -> None:
    home, deep = place
    (home / "AGENTS.md").write_text("global")
    (tmp_path / "work" / "CLAUDE.md").write_text("work")
    (tmp_path / "work" / "project" / "AGENTS.md").write_text("project")
    (deep / "AGENTS.md").write_text("src")
    assert found(home, deep, tmp_path) == [
        ("home/AGENTS.md", "global"),
        ("work/CLAUDE.md", "work"),
        ("work/project/AGENTS.md", "project"),
        ("work/project/src/AGENTS.md", "src"),
    ]
    assert [name for name, _ in found(home, deep.parent, tmp_path)] == [
        "home/AGENTS.md",
        "work/CLAUDE.md",
        "work/project/AGENTS.md",
    ]


def test_of_two_files_in_one_directory_agents_md_counts(place: tuple[Path, Path], tmp_path: Path) -> None:
    home, deep = place
    (deep / "AGENTS.md").write_text("agents")
    (deep / "CLAUDE.md").write_text("claude")
    assert found(home, deep, tmp_path) == [("work/project/src/AGENTS.md", "agents")]


def test_a_home_on_the_way_to_the_directory_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("once")
    (tmp_path / "project").mkdir()
    assert [text for _, text in found(tmp_path, tmp_path / "project", tmp_path)] == ["once"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert [text for _, text in found(tmp_path / "link", tmp_path / "project", tmp_path.resolve())] == ["once"]


def test_a_file_that_cannot_be_read_is_passed_over_and_a_huge_one_is_cut(
    place: tuple[Path, Path], tmp_path: Path
) -> None:
    home, deep = place
    (deep / "AGENTS.md").mkdir()
    (deep / "CLAUDE.md").write_bytes(b"\xff" + b"x" * MAX_BYTES)
    ((name, text),) = found(home, deep, tmp_path)
    assert (name, text[:2], len(text)) == ("work/project/src/CLAUDE.md", "\N{REPLACEMENT CHARACTER}x", MAX_BYTES)


@pytest.mark.anyio
async def test_each_run_reads_the_files_anew(place: tuple[Path, Path]) -> None:
    home, deep = place
    model = ScriptedModel([say("one"), say("two")])
    session = SessionManager.create(deep, setup=Setup(home))
    async with AgentSession(session, Wishes(model, tools=["read"])) as controller:
        (deep / "AGENTS.md").write_text("be brief")
        await controller.prompt("hello")
        (deep / "AGENTS.md").write_text("be long")
        await controller.prompt("again")
    first, second = (request.system_prompt for request in model.requests)
    assert ("be brief" in first, "be brief" in second, "be long" in second) == (True, False, True)
    assert f"Instructions from {deep.resolve() / 'AGENTS.md'}" in first
    assert (f"The session's directory is {deep.resolve()}." in first, "Use read to look into files" in first) == (
        True,
        True,
    )
    assert "Use bash" not in first


@pytest.mark.anyio
async def test_a_prompt_of_the_users_stands_in_for_the_default_and_additions_follow(place: tuple[Path, Path]) -> None:
    home, deep = place
    (home / "AGENTS.md").write_text("global")
    model = ScriptedModel([say("one")])
    session = SessionManager.create(deep, setup=Setup(home))
    wishes = Wishes(model, tools=["read"], prompt=PromptParts("You are a parrot.", ("Say it twice.",)))
    async with AgentSession(session, wishes) as controller:
        await controller.prompt("hello")
    sections = model.requests[0].system_prompt.split("\n\n")
    assert sections[:4] == [
        "You are a parrot.",
        "Say it twice.",
        f"Instructions from {home.resolve() / 'AGENTS.md'}:",
        "global",
    ]
