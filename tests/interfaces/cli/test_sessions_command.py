"""`coppice sessions` as its users meet it: a new process, real files, exit codes, one line for each refusal."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.command import Coppice, Ended
from tests.plain_user import as_plain_user

from coppice.format.messages import AssistantMessage, EntryId, TextBlock, ToolCall, ToolCallId, UserMessage
from coppice.interfaces.cli.main import main
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.session.writer import Setup

KEYS = ["leaf", "name", "labels", "thinkingLevel", "model", "entries", "messages"]


def user(text: str) -> UserMessage:
    return UserMessage(text, 1764000000000)


def reply(text: str, *calls: str) -> AssistantMessage:
    blocks = tuple(ToolCall(ToolCallId(call), call, {}) for call in calls)
    return AssistantMessage((TextBlock(text), *blocks), "api", "maker", "some-model", timestamp=1764000000001)


def wait_for_the_next_millisecond() -> None:
    """So that what is stored next is stored later, also by the clock of the file."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now:
        pass


def new_session(directory: Path, setup: Setup, *prompts: str) -> SessionManager:
    session = SessionManager.create(directory, setup=setup)
    for prompt in prompts:
        session.append_message(user(prompt))
        session.append_message(reply(f"reply to {prompt}"))
    session.close()
    wait_for_the_next_millisecond()
    return session


def file_of(session: SessionManager) -> Path:
    assert session.session_file is not None
    return session.session_file


def ids_of(session: SessionManager) -> list[EntryId]:
    return list(session.index.ids)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")] if text else []


def session_lines(*entries: dict[str, Any], session_id: str = "00000000-0000-7000-8000-000000000000") -> str:
    header = {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/x"}
    return "".join(json.dumps(line) + "\n" for line in [header, *entries])


def message(entry_id: str, parent_id: str | None, text: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": "2026-01-02T03:04:06.000Z",
        "message": {"role": "user", "content": text, "timestamp": 1764000000000},
        **more,
    }


def chain(count: int) -> list[dict[str, Any]]:
    return [message(f"{at:08x}", f"{at - 1:08x}" if at else None, f"text {at}") for at in range(count)]


def private_file(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


# --- list ----------------------------------------------------------------------------------------


def test_a_home_that_is_not_there_has_no_sessions_and_is_not_made(coppice: Coppice) -> None:
    assert coppice("sessions", "list") == Ended(
        0, "", "coppice: no sessions in this directory (coppice sessions list --all)\n"
    )
    assert coppice("sessions", "list", "--all", "--json") == Ended(0, "", "")
    assert not coppice.home.exists()


def test_the_list_shows_this_directorys_sessions_the_one_used_last_first(
    coppice: Coppice, setup: Setup, project: Path, tmp_path: Path
) -> None:
    first, second = new_session(project, setup, "hello\nthere"), new_session(project, setup, "good day")
    other = new_session(tmp_path, setup, "elsewhere")
    again = SessionManager.open(file_of(first), setup=setup)
    again.append_session_info("the first one")
    again.close()
    shown = coppice("sessions", "list")
    assert (shown.code, shown.err) == (0, "")
    rows = [line.split("  ") for line in shown.out.splitlines()]
    assert [(row[-1], row[-2].strip()) for row in rows] == [("the first one", "2 messages"), ("good day", "2 messages")]
    everything = objects(coppice("sessions", "list", "--all", "--json").out)
    assert [row["id"] for row in everything] == [first.session_id, other.session_id, second.session_id]
    assert list(everything[0]) == [
        "path", "id", "cwd", "name", "created", "lastUsed", "messages", "firstPrompt", "parentSession", "problem",
    ]  # fmt: skip
    assert (everything[0]["firstPrompt"], everything[0]["name"]) == ("hello\nthere", "the first one")


def test_the_ids_in_the_list_are_long_enough_to_name_one_session_each(
    coppice: Coppice, setup: Setup, project: Path
) -> None:
    sessions = [new_session(project, setup, f"prompt {number}") for number in range(4)]
    prefixes = [line.split("  ")[1] for line in coppice("sessions", "list").out.splitlines()]
    shown = [json.loads(coppice("sessions", "show", prefix, "--json").out)["id"] for prefix in prefixes]
    assert sorted(shown) == sorted(session.session_id for session in sessions)


def test_a_session_directory_of_its_own_is_listed(coppice: Coppice, project: Path, tmp_path: Path) -> None:
    own = Setup(tmp_path / "home", tmp_path / "own", sync=False)
    session = new_session(project, own, "kept apart")
    assert objects(coppice("sessions", "list", "--json").out) == []
    (row,) = objects(coppice("sessions", "list", "--json", "--session-dir", "../own").out)
    assert (os.path.samefile(row["path"], file_of(session)), row["firstPrompt"]) == (True, "kept apart")


def test_a_session_file_that_cannot_be_opened_is_named_in_the_list(coppice: Coppice, tmp_path: Path) -> None:
    directory = tmp_path / "own"
    directory.mkdir()
    (directory / "2026-01-02T03-04-05-678Z_gone.jsonl").symlink_to(tmp_path / "nowhere")
    shown = coppice("sessions", "list", "--all", "--session-dir", str(directory))
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("cannot be read")
    assert shown.out.endswith("_gone.jsonl: no such session file\n")


# --- show ----------------------------------------------------------------------------------------


def test_show_tells_what_a_session_is(coppice: Coppice, setup: Setup, project: Path) -> None:
    session = SessionManager.create(project, setup=setup)
    session.append_model_change("maker", "some-model")
    session.append_thinking_level_change("high")
    first = session.append_message(user("one"))
    session.append_message(reply("two"))
    session.append_label_change(first, "start")
    session.append_session_info("named")
    session.branch(first)
    held = objects(coppice("sessions", "show", str(file_of(session)), "--json").out)[0]
    session.close()
    report = objects(coppice("sessions", "show", session.session_id[:20], "--json").out)[0]
    assert held["holder"]["pid"] == os.getpid()
    assert held | {"holder": None} == report
    assert report == {
        "path": str(session.session_file),
        "id": session.session_id,
        "version": 3,
        "timestamp": session.get_header().timestamp,
        "cwd": str(project),
        "parentSession": None,
        "entries": 7,
        "kinds": {
            "user": 1, "assistant": 1, "model_change": 1, "thinking_level_change": 1, "label": 1, "session_info": 1,
            "leaf marker": 1,
        },
        "roots": 1,
        "branchPoints": 0,
        "tips": [ids_of(session)[5]],
        "leaf": first,
        "name": "named",
        "labels": {first: "start"},
        "model": {"provider": "maker", "modelId": "some-model"},
        "thinkingLevel": "high",
        "damageCount": 0,
        "damage": [],
        "bridges": [],
        "holder": None,
    }  # fmt: skip
    text = coppice("sessions", "show", str(file_of(session)))
    assert (text.code, text.err) == (0, "")
    assert "name      named\n" in text.out
    assert f"label     {first}  start\n" in text.out


def test_show_lists_every_damage_with_its_line(coppice: Coppice, tmp_path: Path) -> None:
    lines = session_lines(*chain(20)).splitlines()
    for number in (3, 5, 7, 9, 11, 13, 15):
        lines[number - 1] = "not json"
    file = private_file(tmp_path / "damaged.jsonl", "")
    file.write_bytes("\n".join(lines).encode() + b'\n{"type":"message","id":"0000ff00","parentId":"00000013",'
                     b'"timestamp":"x","message":{"role":"user","content":"\xff","timestamp":1}}\n{"type":"mess')  # fmt: skip
    before = file.read_bytes()
    (report,) = objects(coppice("sessions", "show", str(file), "--json").out)
    found = [damage["line"] for damage in report["damage"]]
    orphans = [4, 6, 8, 10, 12, 14, 16]
    assert sorted(found) == sorted([3, 5, 7, 9, 11, 13, 15, *orphans, 22, 23])
    assert [bridge["line"] for bridge in report["bridges"]] == orphans
    text = coppice("sessions", "show", str(file))
    assert text.out.count("damage    line ") == len(found) == report["damageCount"]
    assert "bridge    line 4: 00000002 is tied to the entry before it" in text.out
    tree = coppice("sessions", "tree", str(file))
    assert f"coppice: {file}:3: not a JSON object; the line was left out\n" in tree.err
    assert file.read_bytes() == before


# --- tree, path, context -------------------------------------------------------------------------


@pytest.fixture
def branched(setup: Setup, project: Path) -> SessionManager:
    """u1 a1 (u2 a2 | u3), u3 labelled and the leaf."""
    session = SessionManager.create(project, setup=setup)
    session.append_message(user("question"))
    forked = session.append_message(reply("answer", "read", "grep"))
    session.append_message(user("one way"))
    session.append_message(reply("done"))
    session.branch(forked)
    last = session.append_message(user("another\nway"))
    session.append_label_change(last, "better")
    session.close()
    return session


def test_the_tree_shows_branches_labels_the_path_and_where_we_are(coppice: Coppice, branched: SessionManager) -> None:
    u1, a1, u2, a2, _, u3, _ = ids_of(branched)
    shown = coppice("sessions", "tree", str(branched.session_file))
    assert shown == Ended(
        0,
        f"● {u1} user: question\n"
        f"● {a1} assistant: answer → read, grep\n"
        f"├─   {u2} user: one way\n"
        f"│    {a2} assistant: done\n"
        f"└─ ● {u3} user: another [better] ← you are here\n",
        "",
    )


def test_the_tree_is_filtered_folded_and_looked_at_from_another_leaf(
    coppice: Coppice, branched: SessionManager
) -> None:
    u1, a1, u2, a2, _, u3, label = ids_of(branched)
    file = str(branched.session_file)
    assert coppice("sessions", "tree", file, "--filter", "user-only", "--leaf", a2).out == (
        f"● {u1} user: question\n├─ ● {u2} user: one way ← you are here\n└─   {u3} user: another [better]\n"
    )
    assert (
        coppice("sessions", "tree", file, "--filter", "labelled").out
        == f"● {u3} user: another [better] ← you are here\n"
    )
    assert coppice("sessions", "tree", file, "--fold", u2, "--leaf", "null").out == (
        f"  {u1} user: question\n"
        f"  {a1} assistant: answer → read, grep\n"
        f"├─   {u2} user: one way (+1 folded)\n"
        f"└─   {u3} user: another [better]\n"
        "← you are here: before the first entry\n"
    )
    rows = objects(coppice("sessions", "tree", file, "--filter", "all", "--json").out)
    assert [row["id"] for row in rows] == [u1, a1, u2, a2, u3, label]
    assert rows[4] == {
        "id": u3, "parentId": a1, "kind": "user", "text": "another", "label": "better", "depth": 0, "branch": True,
        "onPath": True, "here": False, "hidden": 0, "bridged": False,
    }  # fmt: skip


def test_the_path_is_printed_as_lines_or_as_the_entries_themselves(coppice: Coppice, branched: SessionManager) -> None:
    u1, a1, u2, _, _, u3, _ = ids_of(branched)
    file = file_of(branched)
    assert coppice("sessions", "path", str(file), "--leaf", u3).out == (
        f"{u1} user: question\n{a1} assistant: answer → read, grep\n{u3} user: another [better]\n"
    )
    stored = {entry["id"]: entry for entry in objects(file.read_text(encoding="utf-8"))}
    shown = objects(coppice("sessions", "path", str(file), "--leaf", u2, "--json").out)
    assert shown == [stored[u1], stored[a1], stored[u2]]
    assert coppice("sessions", "path", str(file), "--leaf", "null") == Ended(0, "", "")


def test_the_context_is_one_object_a_line_at_a_leaf_or_everywhere(coppice: Coppice, branched: SessionManager) -> None:
    u1, a1, u2, a2, marker, u3, label = ids_of(branched)
    file = str(branched.session_file)
    (here,) = objects(coppice("sessions", "context", file, "--json").out)
    assert (list(here), here["leaf"], here["labels"]) == (KEYS, label, {u3: "better"})
    assert here["entries"] == [u1, a1, u3, label]
    assert [given["content"] for given in here["messages"] if given["role"] == "user"] == ["question", "another\nway"]
    everywhere = objects(coppice("sessions", "context", file, "--all", "--json").out)
    assert [answer["leaf"] for answer in everywhere] == [label, u1, a1, u2, a2, marker, u3, label, None]
    assert everywhere[0] == everywhere[-2] == here
    assert objects(coppice("sessions", "context", file, "--json", "--leaf", "null").out) == [everywhere[-1]]
    assert everywhere[-1] == {
        "leaf": None, "name": None, "labels": {u3: "better"}, "thinkingLevel": "off", "model": None, "entries": [],
        "messages": [],
    }  # fmt: skip


def test_the_context_for_people_lists_roles_and_sizes(coppice: Coppice, branched: SessionManager) -> None:
    u1, _, _, _, _, u3, label = ids_of(branched)
    lines = coppice("sessions", "context", str(branched.session_file)).out.splitlines()
    assert lines[0].startswith(f"at {label}, model maker/some-model, thinking off: 4 entries, 3 messages, ")
    assert [line.split()[0] for line in (lines[1], lines[3])] == [u1, u3]
    assert lines[3].endswith("user         another")
    assert len(lines) == 4


def test_a_compaction_that_brings_its_own_list_is_shown_with_that_list(
    coppice: Coppice, setup: Setup, project: Path
) -> None:
    session = SessionManager.create(project, setup=setup)
    first = session.append_message(user("one"))
    session.append_message(user("two"))
    items = [
        {"entry": first},
        {"message": {"role": "user", "content": "cut", "timestamp": 3}},
        {"item": {"type": "compaction", "encrypted_content": "x"}},
        {"summary": True},
    ]
    details = {"replacement": items, "binding": {"provider": "maker", "api": "responses"}}
    compaction = CompactionDraft("so far", None, 5, details)
    compacted = session.append_compaction(compaction, expect=session.get_leaf_id())
    after = session.append_message(user("three"))
    edit = session.append_context_edit(first, "one, edited")
    session.close()
    (answer,) = objects(coppice("sessions", "context", str(file_of(session)), "--json").out)
    assert answer["entries"] == [compacted, after, edit]
    assert [message.get("content", message["role"]) for message in answer["messages"]] == [
        "one, edited", "cut", "coppice.opaque", "compactionSummary", "three",
    ]  # fmt: skip
    lines = coppice("sessions", "context", str(file_of(session))).out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["user", "user", "opaque", "compactionSummary", "user"]


def test_half_characters_come_out_as_escapes_and_the_rest_as_it_is(coppice: Coppice, tmp_path: Path) -> None:
    file = private_file(tmp_path / "half.jsonl", session_lines(message("0000000a", None, "half \ud83d é 😀")))
    answer = coppice("sessions", "context", str(file), "--json")
    assert "half \\ud83d" in answer.out
    assert objects(answer.out)[0]["messages"][0]["content"] == "half \ud83d é 😀"
    assert "half \ufffd é 😀" in coppice("sessions", "tree", str(file)).out


def test_a_session_of_version_1_is_looked_at_under_ids_that_stay_the_same(coppice: Coppice, tmp_path: Path) -> None:
    old = [
        {"type": "session", "id": "one", "timestamp": "2025-01-02T03:04:05.678Z", "cwd": "/x"},
        *({key: value for key, value in entry.items() if key not in ("id", "parentId")} for entry in chain(3)),
    ]
    file = private_file(tmp_path / "old.jsonl", "".join(json.dumps(line) + "\n" for line in old))
    path = objects(coppice("sessions", "path", str(file), "--json").out)
    assert [entry["message"]["content"] for entry in path] == ["text 0", "text 1", "text 2"]
    assert [entry["parentId"] for entry in path] == [None, path[0]["id"], path[1]["id"]]
    tree = coppice("sessions", "tree", str(file), "--leaf", path[1]["id"])
    assert tree.out.splitlines()[1] == f"● {path[1]['id']} user: text 1 ← you are here"
    assert objects(coppice("sessions", "show", str(file), "--json").out)[0]["version"] == 1


def test_what_json_has_no_number_for_is_null_and_deep_nesting_is_no_traceback(coppice: Coppice, tmp_path: Path) -> None:
    for depth in (100, 900, 960, 975, 985, 5000):
        text = session_lines(message("0000000a", None, 'half \ud83d "Infinity"', details=[1, "-Infinity \\"]))
        nested = f"[1e999,-1e999,{'[' * depth}{']' * depth}]"
        file = private_file(tmp_path / f"{depth}.jsonl", text.replace('"details": [', f'"details": [{nested}, '))
        answer = coppice("sessions", "path", str(file), "--json")
        assert "Traceback" not in answer.err
        assert answer.code == 0
        if depth <= 900:  # how much deeper can be read depends on the interpreter; what cannot is damage
            assert answer.out.count("\n") == 1
        if depth == 100:
            (entry,) = objects(answer.out)
            assert entry["message"]["content"] == 'half \ud83d "Infinity"'
            assert (entry["details"][0][:2], entry["details"][1:]) == ([None, None], [1, "-Infinity \\"])


@pytest.mark.case("P08")
def test_the_tree_of_a_deep_session_with_branches_is_whole_in_file_order_and_in_time(
    coppice: Coppice, tmp_path: Path
) -> None:
    entries = chain(5000)
    for branch in range(50):
        parent = f"{branch * 97 + 11:08x}"
        for step in range(10):
            entries.append(message(f"b{branch:03x}{step:04x}", parent, f"branch {branch} step {step}"))
            parent = entries[-1]["id"]
    file = private_file(tmp_path / "deep.jsonl", session_lines(*entries))
    for words in (["tree"], ["tree", "--json"], ["path", "--leaf", "00001387"], ["context"], ["show"]):
        start = time.monotonic()
        shown = coppice("sessions", words[0], str(file), *words[1:])
        assert (shown.code, shown.err) == (0, "")
        assert time.monotonic() - start < 2
    rows = objects(coppice("sessions", "tree", str(file), "--json").out)
    assert len(rows) == 5500
    order = {entry["id"]: at for at, entry in enumerate(entries)}
    last_child: dict[str | None, int] = {}
    for row in rows:
        assert order[row["id"]] > last_child.get(row["parentId"], -1)
        last_child[row["parentId"]] = order[row["id"]]


def test_a_tree_as_deep_in_branches_as_in_entries_keeps_its_lines_within_the_width(
    coppice: Coppice, tmp_path: Path
) -> None:
    entries: list[dict[str, Any]] = []
    parent: str | None = None
    for at in range(300):
        entries += [message(f"a{at:07x}", parent, "left"), message(f"b{at:07x}", parent, "the main line " * 9)]
        parent = f"b{at:07x}"
    shown = coppice("sessions", "tree", str(private_file(tmp_path / "wide.jsonl", session_lines(*entries))))
    assert shown.code == 0
    assert len(shown.out.splitlines()) == 600
    assert max(map(len, shown.out.splitlines()[:-1])) <= coppice.columns


def test_a_pipe_that_closes_early_ends_the_tree_silently(coppice: Coppice, tmp_path: Path) -> None:
    file = private_file(tmp_path / "long.jsonl", session_lines(*chain(20_000)))
    command = [sys.executable, "-m", "coppice", "sessions", "tree", str(file)]
    with subprocess.Popen(
        command, env=coppice.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "● 00000000 user: text 0\n".encode()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 141)


def test_ctrl_c_ends_a_command_whose_reader_waits_with_one_line(coppice: Coppice, tmp_path: Path) -> None:
    file = private_file(tmp_path / "long.jsonl", session_lines(*chain(20_000)))
    command = [sys.executable, "-m", "coppice", "sessions", "tree", str(file)]
    with subprocess.Popen(
        command, env=coppice.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert (process.stderr.read(), process.wait()) == (b"coppice: interrupted\n", 130)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_under_the_output_is_told_in_one_line(coppice: Coppice, branched: SessionManager) -> None:
    command = [sys.executable, "-m", "coppice", "sessions", "tree", str(branched.session_file)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=coppice.environment(), stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"coppice: No space left on device\n")


def test_a_locale_without_the_characters_gets_question_marks(coppice: Coppice, branched: SessionManager) -> None:
    command = [sys.executable, "-m", "coppice", "sessions", "tree", str(branched.session_file)]
    environment = coppice.environment() | {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"? ")


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\r\n\x9b1mbold \u202eevil\u2066 \x00\x07\ud800 end"


def test_no_text_of_a_session_reaches_the_terminal_raw(coppice: Coppice, tmp_path: Path) -> None:
    entries = [
        message(f"id\x1b[2J{at}", f"id\x1b[2J{at - 1}" if at else None, HOSTILE) for at in range(2)
    ]  # fmt: skip
    kinds: list[dict[str, Any]] = [
        {"type": "message", "message": {"role": HOSTILE}},
        {"type": "message", "message": {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": HOSTILE}},
        {"type": "message", "message": {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": HOSTILE, "arguments": {}}], "provider": HOSTILE, "model": HOSTILE, "stopReason": HOSTILE}},
        {"type": "message", "message": {"role": "toolResult", "toolCallId": "c", "toolName": HOSTILE, "content": [{"type": "text", "text": HOSTILE}]}},
        {"type": "message", "message": {"role": "bashExecution", "command": HOSTILE, "output": HOSTILE}},
        {"type": "message", "message": {"role": "custom", "customType": HOSTILE, "content": HOSTILE}},
        {"type": "custom_message", "customType": HOSTILE, "content": HOSTILE, "display": True},
        {"type": "branch_summary", "fromId": HOSTILE, "summary": HOSTILE},
        {"type": "context_edit", "targetId": HOSTILE, "replacement": None},
        {"type": "thinking_level_change", "thinkingLevel": HOSTILE},
        {"type": "model_change", "provider": HOSTILE, "modelId": HOSTILE},
        {"type": "usage", "kind": HOSTILE},
        {"type": "custom", "customType": HOSTILE},
        {"type": "label", "targetId": "id\x1b[2J0", "label": HOSTILE},
        {"type": "session_info", "name": HOSTILE},
        {"type": HOSTILE},
        {"type": "message", "parentId": HOSTILE, "message": {"role": "user", "content": HOSTILE}},
    ]  # fmt: skip
    for at, kind in enumerate(kinds):
        place = {"id": f"k{HOSTILE}{at}", "parentId": entries[-1]["id"], "timestamp": HOSTILE}
        entries.append({"type": kind["type"]} | place | kind)
    text = session_lines(*entries, session_id=HOSTILE).replace('"cwd": "/x"', f'"cwd": {json.dumps(HOSTILE)}')
    file = private_file(tmp_path / "hostile\x1b[2J.jsonl", text)
    runs = [
        coppice("sessions", command, str(file), *words)
        for command, words in [
            ("show", []), ("tree", []), ("tree", ["--filter", "all"]), ("path", []), ("context", []),
            ("tree", ["--leaf", "no\x1b[2Jne"]),
        ]
    ]  # fmt: skip
    runs.append(coppice("sessions", "list", "--all", "--session-dir", str(tmp_path)))
    assert [run.code for run in runs] == [0, 0, 0, 0, 0, 1, 0]
    printed = "".join(run.out + run.err for run in runs)
    assert not [c for c in printed if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)]
    assert not set(printed) & set("\u202e\u2066\u2028")
    for run in runs[:5]:
        assert all(len(line) <= coppice.columns + 40 for line in run.out.splitlines()[10:])


# --- refusals ------------------------------------------------------------------------------------


def refused(ended: Ended, code: int, *parts: str) -> bool:
    """Whether a command was refused: its exit code, nothing printed, one line on standard error with these parts."""
    one_line = ended.err.startswith("coppice: ") and ended.err.count("\n") == 1 and ended.err.endswith("\n")
    return one_line and (ended.code, ended.out) == (code, "") and all(part in ended.err for part in parts)


COMMANDS = ("show", "tree", "path", "context")


@pytest.mark.case("P28")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_ambiguous_an_empty_and_an_unknown_id_are_refused_and_make_nothing(
    coppice: Coppice, setup: Setup, project: Path, command: str
) -> None:
    directory = setup.directory(project)
    directory.mkdir(parents=True, mode=0o700)
    twins = ["01234567-89ab-7000-8000-000000000001", "01234567-89ac-7000-8000-000000000002"]
    for twin in twins:
        private_file(directory / f"2026-01-02T03-04-05-678Z_{twin}.jsonl", session_lines(*chain(2), session_id=twin))
    assert twins[0][:12] == twins[1][:12]
    files = sorted(setup.home.rglob("*"))
    assert refused(coppice("sessions", command, "01234567-89a"), 1, "'01234567-89a' fits 2 sessions", *twins)
    assert refused(coppice("sessions", command, ""), 2, "empty")
    assert refused(coppice("sessions", command, "  "), 2, "empty")
    assert refused(coppice("sessions", command, "ffff"), 1, "'ffff'", "coppice sessions list --all")
    assert coppice("sessions", command, "01234567-89ab").code == 0
    assert sorted(setup.home.rglob("*")) == files


@pytest.mark.case("P02")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["other JSON lines", "a picture", "a text without a newline"])
def test_a_file_that_is_no_session_is_refused_by_name_and_stays_as_it_was(
    coppice: Coppice, tmp_path: Path, kind: str, command: str
) -> None:
    contents = {
        "other JSON lines": b'{"level":"info","msg":"not ours","n":12345}\n' * 70_000,
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40,
        "a text without a newline": b"hello",
    }
    file = tmp_path / "strange.jsonl"
    file.write_bytes(contents[kind])
    os.utime(file, ns=(1_700_000_000_000_000_000, 1_700_000_000_123_456_789))
    for name in (str(file), "../strange.jsonl"):
        assert refused(coppice("sessions", command, name), 1, "strange.jsonl", "not a session", "left untouched")
    assert (file.read_bytes() == contents[kind], file.stat().st_mtime_ns) == (True, 1_700_000_000_123_456_789)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project", "strange.jsonl"]


@pytest.mark.case("P02")
def test_a_session_whose_header_is_cut_in_half_can_be_read_and_stays_as_it_was(
    coppice: Coppice, tmp_path: Path
) -> None:
    header, rest = session_lines(*chain(50)).split("\n", 1)
    file = private_file(tmp_path / "half.jsonl", f"{header[: len(header) // 2]}\n{rest}")
    before = file.read_bytes()
    (answer,) = objects(coppice("sessions", "context", str(file), "--json").out)
    assert len(answer["messages"]) == 50
    assert f"{file}:1: " in coppice("sessions", "tree", str(file)).err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["COMMAND"]),
        (["frobnicate"], ["frobnicate"]),
        (["show"], ["FILE|ID"]),
        (["show", "x", "--frob"], ["--frob"]),
        (["tree", "x", "--filter", "none"], ["none", "labelled"]),
        (["list", "--session-dir", ""], ["--session-dir"]),
        (["context", "x", "--all"], ["--json"]),
        (["context", "x", "--all", "--json", "--leaf", "a"], ["--leaf"]),
    ],
)
def test_words_that_cannot_be_used_are_refused_with_exit_code_2(
    coppice: Coppice, words: list[str], parts: list[str]
) -> None:
    assert refused(coppice("sessions", *words), 2, *parts)


def test_what_is_not_there_is_refused_by_name(coppice: Coppice, branched: SessionManager, tmp_path: Path) -> None:
    file = str(branched.session_file)
    assert refused(coppice("sessions", "show", str(tmp_path / "none.jsonl")), 1, "none.jsonl: no such session file")
    assert refused(coppice("sessions", "show", str(tmp_path)), 1, f"{tmp_path}: is a directory")
    assert refused(coppice("sessions", "show", "/" + "x" * 300), 1, "xxx")
    assert refused(coppice("sessions", "tree", file, "--leaf", "ffffffff"), 1, "'ffffffff'")
    assert refused(coppice("sessions", "tree", file, "--fold", "ffffffff"), 1, "'ffffffff'")
    assert refused(coppice("sessions", "path", file, "--leaf", ""), 1, "''")
    assert refused(coppice("sessions", "context", file, "--leaf", "ffffffff", "--json"), 1, "'ffffffff'")


def test_a_file_that_may_not_be_read_is_refused_by_name(
    setup: Setup, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = private_file(tmp_path / "closed.jsonl", session_lines(*chain(2)))
    assert main(["sessions", "show", str(file)]) == 0  # loads all it needs while that may be read
    capfd.readouterr()
    file.chmod(0)
    with as_plain_user(file, tmp_path):
        code = main(["sessions", "show", str(file)])
    told = capfd.readouterr()
    assert (code, told.out) == (1, "")
    assert told.err == f"coppice: {file}: cannot be opened: Permission denied\n"


def test_looking_changes_no_byte_no_time_and_makes_no_file(
    coppice: Coppice, branched: SessionManager, setup: Setup
) -> None:
    file = file_of(branched)
    before = (file.read_bytes(), file.stat().st_mtime_ns, sorted(setup.home.rglob("*")))
    for command in COMMANDS:
        assert coppice("sessions", command, str(file)).code == 0
    assert coppice("sessions", "list", "--all").code == 0
    assert (file.read_bytes(), file.stat().st_mtime_ns, sorted(setup.home.rglob("*"))) == before


def test_a_session_that_somebody_writes_to_can_be_looked_at(coppice: Coppice, setup: Setup, project: Path) -> None:
    session = SessionManager.create(project, setup=setup)
    session.append_message(user("one"))
    for command in COMMANDS:
        shown = coppice("sessions", command, str(file_of(session)))
        assert (shown.code, shown.err) == (0, "")
    session.append_message(user("two"))
    session.close()
    assert "two" in coppice("sessions", "tree", str(file_of(session))).out
