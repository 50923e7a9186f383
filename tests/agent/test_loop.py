"""The loop: what is told and in which order, what is stored and when, and when waiting messages enter."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from coppice.agent.agent import Agent, Kit
from coppice.agent.run import Options
from coppice.errors import Busy, LeafMoved, NothingToContinue, UnknownModel
from coppice.format.events import (
    AgentEnd,
    AgentEvent,
    AgentSettled,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Notice,
    QueueUpdate,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from coppice.format.messages import (
    AssistantMessage,
    CustomMessage,
    EntryId,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from coppice.providers.scripted import ScriptedModel, call, calls, fail, length, say, think
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tools.base import ToolContext, ToolResult, text_result
from tests.agent.stage import QUICK, lines, reopened, set_stage, stored, told, user_ids
from tests.strict import faults_of

pytestmark = pytest.mark.anyio


def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


async def test_a_run_without_tools_is_told_as_pi_tells_it(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, think("hm", then="hello there"))
    await stage.agent.prompt("hi")
    assert told(stage.heard) == [
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "message_start assistant",
        "thinking_start",
        "thinking_delta",
        "thinking_end",
        "text_start",
        "text_delta",
        "text_end",
        "message_end assistant",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]


async def test_a_run_with_a_tool_is_told_as_pi_tells_it(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, call("look", {"at": "a"}), say("done"), tools=[look])
    await stage.agent.prompt("hi")
    assert told(stage.heard) == [
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "message_start assistant",
        "toolcall_start",
        "toolcall_delta",
        "toolcall_end",
        "message_end assistant",
        "tool_execution_start",
        "tool_execution_end",
        "message_start toolResult",
        "message_end toolResult",
        "turn_end",
        "turn_start",
        "message_start assistant",
        "text_start",
        "text_delta",
        "text_end",
        "message_end assistant",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]


async def test_the_events_carry_what_was_said(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, call("look", {"at": "a"}), say("all done here, friend"), tools=[look])
    await stage.agent.prompt("hi")
    path = stage.session.get_branch()
    ends = [event for event in stage.heard if isinstance(event, MessageEnd)]
    assert [end.entry_id for end in ends] == [entry.id for entry in path]
    assert lines(end.message for end in ends) == stored(stage.session)

    turns = [event for event in stage.heard if isinstance(event, TurnEnd)]
    assert [(turn.message, turn.tool_results) for turn in turns] == [
        (ends[1].message, (ends[2].message,)),
        (ends[3].message, ()),
    ]
    (agent_end,) = [event for event in stage.heard if isinstance(event, AgentEnd)]
    assert (agent_end.entry_ids, lines(agent_end.messages)) == (
        tuple(entry.id for entry in path),
        lines(end.message for end in ends),
    )
    assert stage.heard[-1] == AgentSettled(aborted=False)


async def test_a_streamed_reply_starts_empty_and_its_deltas_join_to_its_text(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("a long reply that comes in several pieces"))
    await stage.agent.prompt("hi")
    begun = [event.message for event in stage.heard if isinstance(event, MessageStart)][-1]
    assert isinstance(begun, AssistantMessage)
    assert (begun.content, begun.stop_reason, begun.provider, begun.model) == ((), "pending", "scripted", "scripted")
    updates = [event.assistant_message_event for event in stage.heard if isinstance(event, MessageUpdate)]
    deltas = [update.delta for update in updates if isinstance(update, TextDelta)]
    assert (len(deltas) > 1, "".join(deltas)) == (True, "a long reply that comes in several pieces")


async def test_tool_events_carry_name_arguments_progress_result_and_duration(tmp_path: Path) -> None:
    def dig(depth: int, context: ToolContext) -> ToolResult:
        """Dig."""
        context.update(text_result("half way", {"at": depth // 2}))
        return text_result("deep", {"at": depth})

    stage = set_stage(tmp_path, call("dig", {"depth": 4}, id="c1"), say("done"), tools=[dig])
    await stage.agent.prompt("hi")
    (begun,) = [event for event in stage.heard if isinstance(event, ToolExecutionStart)]
    (shown,) = [event for event in stage.heard if isinstance(event, ToolExecutionUpdate)]
    (ended,) = [event for event in stage.heard if isinstance(event, ToolExecutionEnd)]
    assert (begun.tool_call_id, begun.tool_name, begun.args) == ("c1", "dig", {"depth": 4})
    assert (shown.tool_name, shown.args, shown.partial_result.details) == ("dig", {"depth": 4}, {"at": 2})
    assert (ended.tool_name, ended.is_error, ended.result.content) == ("dig", False, (TextBlock("deep"),))
    assert ended.duration_ms is not None
    assert ended.duration_ms >= 0


@pytest.mark.case("P03")
@pytest.mark.parametrize("sync", [True, False], ids=["synced", "not synced"])
async def test_every_message_end_tells_of_an_entry_that_another_reader_finds(tmp_path: Path, sync: bool) -> None:
    session = SessionManager.create(tmp_path, setup=Setup(tmp_path, sync=sync))
    stage = set_stage(
        tmp_path,
        calls(call("look", {"at": "a"}), call("look", {"at": "b"})),
        say("one"),
        say("two"),
        say("three"),
        tools=[look],
        session=session,
    )
    found: list[tuple[bool, object]] = []

    def check(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd):
            other = reopened(stage.path, tmp_path)
            entry = other.get_entry(event.entry_id)
            found.append((other.get_leaf_id() == event.entry_id, getattr(entry, "message", None) == event.message))
            other.close()

    stage.agent.subscribe(check)
    queued = [False]

    def queue(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart) and not queued[0]:
            queued[0] = True
            stage.agent.steer("look left")
            stage.agent.follow_up("and then?")

    stage.agent.subscribe(queue)
    await stage.agent.prompt("hi")
    assert found == [(True, True)] * 8


# --- parallel tools ------------------------------------------------------------------------------


async def test_parallel_results_are_stored_as_they_come_and_sent_in_call_order(tmp_path: Path) -> None:
    gates = {name: asyncio.Event() for name in "abc"}
    order: list[str] = []

    async def wait(name: str) -> str:
        """Wait for the gate; open the one before."""
        order.append(f"begin {name}")
        if name == "c":
            gates["c"].set()
        await gates[name].wait()
        order.append(f"end {name}")
        return name

    stage = set_stage(
        tmp_path,
        calls(*(call("wait", {"name": name}, id=f"c_{name}") for name in "abc")),
        say("done"),
        tools=[wait],
    )

    def open_the_next(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, ToolResultMessage):
            following = {"c_c": "b", "c_b": "a"}.get(event.message.tool_call_id)
            if following:
                gates[following].set()

    stage.agent.subscribe(open_the_next)
    await stage.agent.prompt("hi")
    assert order == ["begin a", "begin b", "begin c", "end c", "end b", "end a"]
    assert stored(stage.session) == [
        "user: hi",
        "reply: wait(c_a) wait(c_b) wait(c_c) [toolUse]",
        "result c_c: c",
        "result c_b: b",
        "result c_a: a",
        "reply: done [stop]",
    ]
    assert lines(stage.sent().messages)[2:] == ["result c_a: a", "result c_b: b", "result c_c: c"]
    turn = next(event for event in stage.heard if isinstance(event, TurnEnd))
    assert [result.tool_call_id for result in turn.tool_results] == ["c_a", "c_b", "c_c"]
    assert faults_of(stage.sent().messages) == []


# --- tools that misbehave ------------------------------------------------------------------------


def breaks() -> str:
    """Break."""
    raise RuntimeError("no luck")


def gives_rubbish() -> ToolResult:
    """Give something no file can hold."""
    return ToolResult((TextBlock("fine"),), details=object())


class Liar:
    """A tool that is none: what it gives is not a result."""

    name = "lie"
    description = "Lie."
    parameters: ClassVar[dict[str, object]] = {"type": "object", "properties": {}}

    async def run(self, arguments: dict[str, object], context: ToolContext) -> ToolResult:
        return None  # pyright: ignore[reportReturnType]  (that is the lie)


class Mutator:
    """A tool that works on its arguments in place."""

    name = "pop"
    description = "Pop."
    parameters: ClassVar[dict[str, object]] = {"type": "object"}

    async def run(self, arguments: dict[str, object], context: ToolContext) -> ToolResult:
        arguments.clear()
        return text_result("popped")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (call("breaks"), "The tool 'breaks' failed: RuntimeError: no luck"),
        (call("nothing"), "There is no tool 'nothing'. Tools: breaks, gives_rubbish, look"),
        (call("gives_rubbish"), "The tool 'gives_rubbish' failed: TypeError: Encoding objects of type object"),
        (call("look", {"at": 7}), "look"),
        (call("look", {}), "look"),
    ],
)
async def test_a_call_that_goes_wrong_is_answered_with_what_went_wrong(
    tmp_path: Path, asked: object, answer: str
) -> None:
    stage = set_stage(tmp_path, asked, say("I see"), tools=[breaks, gives_rubbish, look])  # pyright: ignore[reportArgumentType]  (a reply)
    await stage.agent.prompt("hi")
    result = stage.session.get_branch()[2].message  # pyright: ignore[reportAttributeAccessIssue]  (a message entry)
    assert (result.is_error, answer in result.content[0].text) == (True, True), result
    assert stored(stage.session)[-1] == "reply: I see [stop]"
    assert faults_of(stage.sent().messages) == []


async def test_a_tool_that_gives_no_result_fails_its_call_and_not_the_run(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, call("lie", id="c1"), say("I see"))
    stage.agent.kit.tools = {"lie": Liar()}
    await stage.agent.prompt("hi")
    assert stored(stage.session)[2].startswith("result c1: The tool 'lie' failed: ")
    assert stored(stage.session)[3:] == ["reply: I see [stop]"]


async def test_a_tool_cannot_change_the_arguments_that_are_stored(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, call("pop", {"a": [1, 2]}), say("I see"))
    stage.agent.kit.tools = {"pop": Mutator()}
    await stage.agent.prompt("hi")
    (reply,) = [message for message in stage.sent().messages if isinstance(message, AssistantMessage)]
    assert tool_calls_of(reply)[0].arguments == {"a": [1, 2]}


async def test_two_calls_with_one_id_are_run_once(tmp_path: Path) -> None:
    ran: list[str] = []

    def note(at: str) -> str:
        """Note."""
        ran.append(at)
        return at

    twice = calls(call("note", {"at": "a"}, id="c1"), call("note", {"at": "b"}, id="c1"))
    stage = set_stage(tmp_path, twice, say("done"), tools=[note])
    await stage.agent.prompt("hi")
    assert (ran, stored(stage.session)[2:]) == (["a"], ["result c1: a", "reply: done [stop]"])


async def test_results_never_land_on_a_branch_without_their_call(tmp_path: Path) -> None:
    def wander() -> str:
        """Move the leaf behind the agent's back."""
        stage.session.branch(None)
        return "moved"

    stage = set_stage(tmp_path, say("one"), call("wander", id="c1"), say("never sent"), tools=[wander])
    await stage.agent.prompt("hi")
    with pytest.raises(LeafMoved):
        await stage.agent.prompt("wander")
    assert (stage.session.get_leaf_id(), stored(stage.session)) == (None, [])
    assert len(stage.model.requests) == 2
    assert [event.level for event in stage.heard if isinstance(event, Notice)] == ["error"]
    assert not stage.agent.is_running


# --- continuing ----------------------------------------------------------------------------------


async def test_continuing_answers_what_stands_there(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, fail("no", status=401), say("now"))
    await stage.agent.prompt("hi")
    await stage.agent.continue_()
    assert stored(stage.session) == ["user: hi", "reply:  [error]", "reply: now [stop]"]
    assert lines(stage.sent().messages) == ["user: hi"]


async def test_continuing_after_a_complete_reply_is_refused(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("done"))
    with pytest.raises(NothingToContinue):
        await stage.agent.continue_()
    await stage.agent.prompt("hi")
    with pytest.raises(NothingToContinue):
        await stage.agent.continue_()
    assert len(stage.model.requests) == 1


def _message_entry(session: SessionManager) -> EntryId:
    return session.append_message(CustomMessage("note", "look here"))


def _custom_entry(session: SessionManager) -> EntryId:
    return session.append_custom_message_entry("note", "look here", display=True)


@pytest.mark.parametrize("append", [_message_entry, _custom_entry], ids=["as a message", "as an entry"])
async def test_continuing_after_an_extensions_message_answers_it(
    tmp_path: Path, append: Callable[[SessionManager], EntryId]
) -> None:
    stage = set_stage(tmp_path, say("done"), say("I looked"))
    await stage.agent.prompt("hi")
    append(stage.session)
    await stage.agent.continue_()
    assert lines(stage.sent().messages) == ["user: hi", "reply: done [stop]", "user: look here"]


async def test_continuing_after_a_reply_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, length("and so"), say("on"))
    await stage.agent.prompt("hi")
    await stage.agent.continue_()
    assert stored(stage.session) == ["user: hi", "reply: and so [length]", "reply: on [stop]"]


async def test_a_second_prompt_while_one_runs_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("one").timed(chunk_delay_ms=1), say("two"))
    refused: list[str] = []

    async def intrude() -> None:
        for _ in range(2):
            await stage.model.wait_for_request(1)
            with pytest.raises(Busy):
                await stage.agent.prompt("me too")
            with pytest.raises(Busy):
                await stage.agent.continue_()
            refused.append("yes")

    await asyncio.gather(stage.agent.prompt("hi"), intrude())
    assert (refused, stored(stage.session)) == (["yes", "yes"], ["user: hi", "reply: one [stop]"])


async def test_without_a_model_nothing_is_stored(tmp_path: Path) -> None:
    stage = set_stage(tmp_path)
    stage.agent.kit.model = None
    with pytest.raises(UnknownModel):
        await stage.agent.prompt("hi")
    assert (stage.session.is_stored, stage.heard) == (False, [])


async def test_a_listener_that_raises_fails_the_run_and_leaves_the_agent_idle(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("one"), say("two"))

    def angry(event: AgentEvent) -> None:
        raise RuntimeError("I don't want to hear it")

    stop = stage.agent.subscribe(angry)
    with pytest.raises(RuntimeError):
        await stage.agent.prompt("hi")
    stop()
    assert not stage.agent.is_running
    await stage.agent.prompt("again")
    assert stored(stage.session)[-1] == "reply: one [stop]"


# --- waiting messages ----------------------------------------------------------------------------


async def test_steering_enters_after_the_current_turns_tools(tmp_path: Path) -> None:
    def steered(at: str) -> str:
        """Look, and be told something meanwhile."""
        if at == "a":
            stage.agent.steer("look left")
        return f"saw {at}"

    stage = set_stage(
        tmp_path, calls(call("steered", {"at": "a"}), call("steered", {"at": "b"})), say("done"), tools=[steered]
    )
    await stage.agent.prompt("hi")
    assert lines(stage.sent().messages) == [
        "user: hi",
        "reply: steered(call_1) steered(call_2) [toolUse]",
        "result call_1: saw a",
        "result call_2: saw b",
        "user: look left",
    ]
    assert faults_of(stage.sent().messages) == []


async def test_steering_and_follow_ups_that_enter_are_told_inside_the_turn_they_begin(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("one"), say("two"), say("three"))
    queued = [False]

    def queue(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and not queued[0]:
            queued[0] = True
            stage.agent.follow_up("and then?")
            stage.agent.steer("look left")

    stage.agent.subscribe(queue)
    await stage.agent.prompt("hi")
    assert stored(stage.session) == [
        "user: hi",
        "reply: one [stop]",
        "user: look left",
        "reply: two [stop]",
        "user: and then?",
        "reply: three [stop]",
    ]
    shown = [name for name in told(stage.heard) if not name.startswith(("text_", "thinking_"))]
    turn = [
        "message_start user",
        "message_end user",
        "queue_update",
        "message_start assistant",
        "message_end assistant",
    ]
    assert shown == [
        *("agent_start", "turn_start", "message_start user", "message_end user", "message_start assistant"),
        *("queue_update", "queue_update", "message_end assistant", "turn_end"),
        *("turn_start", *turn, "turn_end"),
        *("turn_start", *turn, "turn_end"),
        *("agent_end", "agent_settled"),
    ]
    updates = [(event.steering, event.follow_up) for event in stage.heard if isinstance(event, QueueUpdate)]
    assert updates == [
        ((), ("and then?",)),
        (("look left",), ("and then?",)),
        ((), ("and then?",)),
        ((), ()),
    ]


@pytest.mark.parametrize(
    ("steering", "follow_up", "turns"),
    [
        ("one", "one", [["s1"], ["s2"], ["f1"], ["f2"]]),
        ("all", "one", [["s1", "s2"], ["f1"], ["f2"]]),
        ("one", "all", [["s1"], ["s2"], ["f1", "f2"]]),
        ("all", "all", [["s1", "s2"], ["f1", "f2"]]),
    ],
)
async def test_waiting_messages_enter_one_at_a_time_or_all(
    tmp_path: Path, steering: str, follow_up: str, turns: list[list[str]]
) -> None:
    options = Options(0, 1, 1, steering, follow_up)  # pyright: ignore[reportArgumentType]  (the table holds the words)
    stage = set_stage(tmp_path, *[say(str(number)) for number in range(9)], options=options)
    queued = [False]

    def queue(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and not queued[0]:
            queued[0] = True
            for kind, text in (("f", "f1"), ("s", "s1"), ("f", "f2"), ("s", "s2")):
                (stage.agent.steer if kind == "s" else stage.agent.follow_up)(text)

    stage.agent.subscribe(queue)
    await stage.agent.prompt("hi")
    asked: list[list[str]] = [[]]
    for line in stored(stage.session)[2:]:
        if line.startswith("user: "):
            asked[-1].append(line.removeprefix("user: "))
        else:
            asked.append([])
    assert asked[:-1] == turns


async def test_waiting_messages_stay_where_they_are_when_a_run_fails(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("looking").then(fail("no", status=401)), say("one"), options=QUICK)
    queued = [False]

    def queue(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and not queued[0]:
            queued[0] = True
            stage.agent.steer("look left")

    stage.agent.subscribe(queue)
    await stage.agent.prompt("hi")
    assert (len(stage.model.requests), stage.agent.queues.texts("steering")) == (1, ("look left",))
    await stage.agent.prompt("again")
    assert stored(stage.session)[2:] == ["user: again", "user: look left", "reply: one [stop]"]


async def test_a_waiting_message_becomes_the_entry_whose_id_was_promised(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("one"), say("two"), say("three"))
    promised: list[EntryId] = []

    def queue(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and not promised:
            promised.extend((stage.agent.steer("s"), stage.agent.follow_up("f")))

    stage.agent.subscribe(queue)
    await stage.agent.prompt("hi")
    assert user_ids(stage.session)[1:] == promised
    assert list((tmp_path / "pending").iterdir()) == []


async def test_messages_taken_back_are_given_back_as_texts_and_never_stored(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("one"))
    stage.agent.follow_up("f")
    stage.agent.steer("s")
    assert stage.agent.clear_queue() == ("s", "f")
    await stage.agent.prompt("hi")
    assert stored(stage.session) == ["user: hi", "reply: one [stop]"]
    assert stage.agent.state.messages == tuple(stage.session.build_session_context().messages)


async def test_a_session_in_memory_keeps_its_waiting_messages_in_memory(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("one"), session=SessionManager.in_memory(tmp_path))
    stage.agent.steer("s")
    await stage.agent.prompt("hi")
    assert stored(stage.session) == ["user: hi", "user: s", "reply: one [stop]"]
    assert not (tmp_path / "pending").exists()


async def test_the_state_tells_what_runs_and_derives_the_messages(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, call("look", {"at": "a"}), say("one"), tools=[look])
    seen: list[tuple[bool, int]] = []
    stage.agent.subscribe(lambda _: seen.append((stage.agent.state.is_running, len(stage.agent.state.messages))))
    await stage.agent.prompt("hi")
    assert (seen[0], seen[-1]) == ((True, 1), (False, 4))
    state = stage.agent.state
    assert (state.tools, state.thinking_level, state.model) == (("look",), "off", stage.model.info)
    stage.session.branch(user_ids(stage.session)[0])
    assert [message for message in stage.agent.state.messages if isinstance(message, UserMessage)] == list(
        stage.agent.state.messages
    )


async def test_an_extensions_state_stored_while_a_reply_streams_does_not_cost_the_reply(tmp_path: Path) -> None:
    session = SessionManager.create(tmp_path, setup=Setup(tmp_path / "home"))
    agent = Agent(session, Kit(ScriptedModel([say("a reply")])))
    noted: list[EntryId] = []

    def note(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and not noted:
            noted.append(session.append_custom_entry("counter", {"n": 1}))

    agent.subscribe(note)
    await agent.prompt("hello")
    prompt, state, reply = session.get_branch()
    assert (state.id, state.parent_id, reply.parent_id) == (noted[0], prompt.id, noted[0])
    said = [message for message in agent.state.messages if isinstance(message, UserMessage | AssistantMessage)]
    assert [text_of(message.content) for message in said] == ["hello", "a reply"]
    session.close()
