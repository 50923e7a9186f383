"""What has to be said before the first prompt: another directory, a stand-in for a model, prompts left over."""

from coppice.agent.queues import text_of_message
from coppice.app.agent_session import AgentSession
from coppice.app.default_tools import default_tools, is_demo
from coppice.app.models import check_model
from coppice.interfaces.cli.options import ModelWish
from coppice.interfaces.cli.printable import cut, first_line
from coppice.interfaces.cli.session_choice import directory_notice
from coppice.providers.demo import HOW_TO_GET_A_REAL_MODEL


def start_notices(session: AgentSession, wish: ModelWish) -> list[str]:
    """What has to be said of the directory and the model; the tools become the model's own where nobody chose.

    Raises:
        UnknownModel: the model cannot be used.
    """
    found = [directory_notice(session.session)]
    if wish.name is not None:
        check_model(wish.name, base_url=wish.base_url or session.settings.base_url)
    name = session.model_name
    if wish.tools is None:
        session.set_tools(default_tools(name, session.settings.tools))
    if is_demo(name) and wish.name is None:
        found.append(f"no model is configured, so the demo model answers; for a real one, {HOW_TO_GET_A_REAL_MODEL}")
    return [text for text in found if text is not None]


def pending_notices(session: AgentSession) -> list[str]:
    """Prompts that an earlier process accepted and never stored, and where they can be sent or dropped."""
    waiting = session.pending_prompts()
    if not waiting:
        return []
    texts = "; ".join(repr(cut(first_line(text_of_message(item.message)), 60)) for item in waiting)
    prompts = "1 prompt" if len(waiting) == 1 else f"{len(waiting)} prompts"
    return [
        f"{prompts} of an earlier run never entered the conversation and will not be sent by themselves: {texts}. "
        f"To send or drop them: coppice --session {session.session.session_id} at a terminal"
    ]
