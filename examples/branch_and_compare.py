"""One question, two answers, side by side in one session: go back to before the question and ask it again.

Needs no key: scripts play the models. With keys, name yours in their place: ``set_model("anthropic/…")``.
"""

import asyncio

from coppice import AgentSession, ModelInfo, ScriptedModel, Wishes, say
from coppice.format.messages import EntryId, Message, UserMessage, text_of

QUESTION = "Name the project in one word."

ONE = ScriptedModel([say("It is a parser for log files."), say("Sieve")], ModelInfo("one", "small", "scripted"))
TWO = ScriptedModel([say("Logbook")], ModelInfo("two", "large", "scripted"))


def text(message: Message) -> str:
    return text_of(getattr(message, "content", ""))


async def main() -> None:
    async with AgentSession.create(".", Wishes(model=ONE)) as session:
        await session.prompt("What is this project?")
        await session.prompt(QUESTION)
        first = session.session.get_leaf_id()
        question = newest_question(session)

        again = await session.navigate_tree(question)  # the question comes back, as into an editor
        session.set_model(TWO)
        await session.prompt(again)
        second = session.session.get_leaf_id()

        for leaf in (first, second):
            context = session.session.build_session_context(leaf)
            print(context.model.model_id if context.model else "?", "->", text(context.messages[-1]))
        stats = session.get_session_stats()
        print(
            stats.branches,
            "branches,",
            stats.file.messages,
            "messages in the file,",
            stats.branch.messages,
            "on this one",
        )


def newest_question(session: AgentSession) -> EntryId:
    path = session.session.get_branch()
    return [entry.id for entry in path if isinstance(getattr(entry, "message", None), UserMessage)][-1]


asyncio.run(main())
