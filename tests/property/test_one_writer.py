"""One writer, whatever it does: no reopening ever says that two programs wrote its session or that it is damaged."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from coppice.format.heads import Kind
from coppice.format.messages import AssistantMessage, TextBlock, ToolCall, ToolCallId, ToolResultMessage, UserMessage
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.session.writer import Setup

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["user", "reply", "tools", "label", "name", "custom", "move", "summary", "top", "reopen", "compact"]
        ),
        st.integers(0, 10_000),
    ),
    max_size=25,
)


def act(session: SessionManager, what: str, number: int) -> None:
    ids = [entry_id for entry_id, kind in zip(session.index.ids, session.index.kinds, strict=True) if kind != Kind.LEAF]
    target = ids[number % len(ids)]
    match what:
        case "user":
            session.append_message(UserMessage("u"))
        case "reply":
            session.append_message(AssistantMessage((TextBlock("a"),)))
        case "tools":
            calls = [ToolCall(ToolCallId(f"c{number}-{n}"), "read", {}) for n in range(3)]
            session.append_message(AssistantMessage(tuple(calls)))
            for call in calls:
                session.append_message(ToolResultMessage(call.id, "read", ()))
        case "label":
            session.append_label_change(target, "x")
        case "name":
            session.append_session_info("x")
        case "custom":
            session.append_custom_entry("x")
        case "move":
            session.branch(target)
        case "summary":
            session.branch_with_summary(target, "s")
        case "top":
            session.reset_leaf()
        case _:
            session.append_compaction(CompactionDraft("s", None, 1), expect=session.get_leaf_id())


@given(steps)
def test_a_session_of_one_writer_reopens_at_its_leaf_without_a_notice(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        setup = Setup(home=Path(place), sync=False)
        session = SessionManager.create(place, setup=setup)
        session.append_message(UserMessage("first"))
        for what, number in [*steps, ("reopen", 0)]:
            if what != "reopen":
                act(session, what, number)
                continue
            leaf, context = session.get_leaf_id(), session.build_session_context()
            session.close()
            assert session.session_file is not None
            session = SessionManager.open(session.session_file, setup=setup)
            assert session.take_notices() == []
            assert session.build_session_context() == context
            at = session.get_leaf_id()
            while at != leaf:  # a label or a name at the end is the leaf of the file
                here = session.get_entry(at) if at is not None else None
                assert here is not None
                assert here.__class__.__name__ in ("LabelEntry", "SessionInfoEntry")
                at = here.parent_id
        session.close()
