"""How large a context is, by the newest report and what changed since."""

from contextlib import closing
from pathlib import Path

from coppice.compaction.estimate import estimate_message
from coppice.compaction.tokens import ContextSize, context_size
from coppice.format.messages import AssistantMessage, TextBlock, Usage, UserMessage
from coppice.session.manager import SessionManager


def reply(tokens: int) -> AssistantMessage:
    return AssistantMessage((TextBlock("ok"),), usage=Usage(input=tokens - 10, output=10, total_tokens=tokens))


def test_what_is_hidden_after_the_newest_report_is_taken_off_it(tmp_path: Path) -> None:
    with closing(SessionManager.in_memory(tmp_path)) as session:
        large = UserMessage("a large text " * 2_000)
        target = session.append_message(large)
        session.append_message(reply(9_000))
        assert context_size(session.build_context(), overhead=500) == ContextSize(9_000, 0, 8_990)
        session.append_context_edit(target, None)
        hidden = context_size(session.build_context(), overhead=500)
        assert hidden == ContextSize(9_000 - estimate_message(large), 0, 8_990)
        session.append_context_edit(target, "short")
        short = context_size(session.build_context(), overhead=500)
        assert short.tokens == hidden.tokens + estimate_message(UserMessage("short"))


def test_what_was_hidden_before_the_newest_report_is_not_taken_off_twice(tmp_path: Path) -> None:
    with closing(SessionManager.in_memory(tmp_path)) as session:
        target = session.append_message(UserMessage("a large text " * 2_000))
        session.append_context_edit(target, None)
        session.append_message(UserMessage("go on"))
        session.append_message(reply(700))
        assert context_size(session.build_context(), overhead=500) == ContextSize(700, 0, 690)
