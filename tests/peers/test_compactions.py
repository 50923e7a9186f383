"""Compactions across the border: what we compact opens in Pi, what Pi compacts opens here, with the same context."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.house import House, asked, path_file
from tests.peers.pi import HERE, Pi, compare, our_answers

from coppice.app.agent_session import AgentSession
from coppice.app.settings import Settings
from coppice.compaction.settings import CompactionSettings
from coppice.format.messages import AssistantMessage, CompactionSummaryMessage, EntryId, TextBlock, UserMessage
from coppice.providers.scripted import ScriptedReply, call, say
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup

pytestmark = [pytest.mark.peers, pytest.mark.anyio]

LONG = "The blue boat left the harbour at noon and came back with nine fish. " * 20
"""Some 300 tokens."""


def look(path: str) -> str:
    """Look at something."""
    return f"{path}: {LONG}"


def talk(turns: int) -> list[ScriptedReply]:
    """Replies for turns of which each second one calls a tool first."""
    found: list[ScriptedReply] = []
    for number in range(turns):
        found += [call("look", {"path": f"{number}.txt"})] if number % 2 else []
        found.append(say(f"reply {number}. {LONG}"))
    return found


async def talked(tmp_path: Path, *more: ScriptedReply, keep: int = 700, turns: int = 6) -> AgentSession:
    """A session of some turns; `more` are the replies after them."""
    settings = Settings(tools=(), compaction=CompactionSettings(keep_recent_tokens=keep))
    session = House.at(tmp_path).enter(*talk(turns), *more, tools=[look], settings=settings)
    for number in range(turns):
        await session.prompt(f"prompt {number}. {LONG}")
    return session


def ours(file: Path) -> dict[str, Any]:
    """What we make of a file, where it opens."""
    (answer,) = our_answers(file)
    return answer


async def test_a_session_we_compacted_with_a_summary_is_the_same_in_pi_at_every_entry(pi: Pi, tmp_path: Path) -> None:
    after = [say("SUMMARY ONE"), say("after it"), say("SUMMARY TWO"), say("and after that"), say("TRIED"), say("end")]
    async with await talked(tmp_path, *after) as session:
        await session.compact()
        await session.prompt(f"next. {LONG}")
        await session.compact("keep the names")
        await session.prompt("and next")
        second = session.session.get_leaf_id()
        session.undo_compaction()
        assert second is not None
        await session.navigate_tree(session.session.get_branch()[2].id, summarize=True)
        await session.prompt("another way")
        file = path_file(session)
    assert compare(pi, file, "--all") > 30
    compare(pi, file, "--leaf", second)


@pytest.mark.parametrize("keep", [1, 300, 900, 5000])
async def test_every_cut_of_ours_keeps_the_same_entries_in_pi(pi: Pi, tmp_path: Path, keep: int) -> None:
    async with await talked(tmp_path, say("SUMMARY"), say("MORE"), say("ok"), keep=keep, turns=4) as session:
        await session.compact()
        file = path_file(session)
    (theirs,) = pi.answers(file)
    assert theirs["messages"][0]["role"] == "compactionSummary"
    assert theirs["messages"] == ours(file)["messages"]
    compare(pi, file, "--all")


async def test_a_replacement_of_ours_shows_pi_the_summary_and_us_the_prompts_that_were_kept(
    pi: Pi, tmp_path: Path
) -> None:
    async with await talked(tmp_path, say("HAND-OVER"), say("after it")) as session:
        before = session.session.get_leaf_id()
        compaction = await session.compact(None, "codex-inline")
        await session.prompt("next")
        file = path_file(session)
        inner = session.messages
    assert before is not None
    (theirs,) = pi.answers(file)
    summary, *rest = theirs["messages"]
    assert (summary["role"], summary["summary"].endswith("HAND-OVER")) == ("compactionSummary", True)
    assert theirs["entries"][0] == compaction
    assert [message["role"] for message in rest] == ["user", "assistant"]
    assert ours(file)["messages"][-3:] == theirs["messages"]
    assert [type(message) for message in inner] == [
        *[UserMessage] * 6,
        CompactionSummaryMessage,
        UserMessage,
        AssistantMessage,
    ]
    compare(pi, file, "--leaf", before)
    goes_on = pi.append(file, ["appendMessage", {"role": "user", "content": "pi goes on", "timestamp": 1764000000000}])
    assert ours(file)["messages"][-1]["content"] == "pi goes on"
    assert ours(file)["leaf"] == goes_on[0]


async def test_pi_compacts_a_session_of_ours_and_we_see_what_pi_sees(pi: Pi, tmp_path: Path) -> None:
    async with await talked(tmp_path) as session:
        file = path_file(session)
    for keep, summary in (("900", "PI ONE"), ("300", "PI TWO"), ("1", "PI THREE")):
        made = json.loads(pi.run(HERE / "compact_pi.mjs", str(file), keep, summary))
        assert made is not None
        compare(pi, file, "--all")
        answer = ours(file)
        assert (answer["leaf"], answer["entries"][0]) == (made, made)
        assert summary in answer["messages"][0]["summary"]
        again = SessionManager.open(file, setup=Setup(tmp_path / "home"))
        again.append_message(UserMessage(f"on after {summary}. {LONG}", 1764000000000))
        again.append_message(AssistantMessage((TextBlock(LONG),), provider="p", model="m", timestamp=1764000000001))
        again.close()
    compare(pi, file, "--all")


async def test_we_compact_again_what_pi_compacted_and_pi_what_we_compacted(pi: Pi, tmp_path: Path) -> None:
    house = House.at(tmp_path)
    async with await talked(tmp_path) as session:
        file = path_file(session)
    pi.run(HERE / "compact_pi.mjs", str(file), "900", "PI FIRST")
    settings = Settings(tools=(), compaction=CompactionSettings(keep_recent_tokens=300))
    async with house.enter(
        say("yes"), say("OURS"), say("MORE"), tools=[look], open_path=file, settings=settings
    ) as again:
        await again.prompt(f"go on. {LONG}")
        await again.compact()
        assert "PI FIRST" in str(asked(again, 1).messages)
    compare(pi, file, "--all")
    session_after = SessionManager.open(file, setup=Setup(tmp_path / "home"))
    for number in range(3):
        session_after.append_message(UserMessage(f"more {number}. {LONG}", 1764000000000))
    session_after.close()
    made: EntryId | None = json.loads(pi.run(HERE / "compact_pi.mjs", str(file), "300", "PI AGAIN"))
    assert made is not None
    compare(pi, file, "--all")


async def test_every_shape_of_compaction_entry_that_pi_writes_is_read_alike(pi: Pi, tmp_path: Path) -> None:
    async with await talked(tmp_path, turns=4) as session:
        file = path_file(session)
        path = [entry.id for entry in session.session.get_branch()]
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5}
    usage = {"input": 7, "output": 3, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 10, "cost": cost}
    files = {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    user = {"role": "user", "content": "between", "timestamp": 1764000000000}
    pi.append(
        file,
        ["appendCompaction", "all kept", path[0], 900, files, False, usage],
        ["appendCompaction", "none kept", None, 900, files, True],
        ["appendMessage", user],
        ["appendCompaction", "a compaction kept", "$1", 5],
        ["branch", path[-3]],
        ["appendCompaction", "from the middle", path[5], 901, {"own": {"deep": [1, None]}}],
        ["appendMessage", user],
        ["appendContextEdit", path[6], None],
        ["appendCompaction", "the same range again", path[5], 902],
        ["appendMessage", user],
    )
    assert compare(pi, file, "--all") > 15
