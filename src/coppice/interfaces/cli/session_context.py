"""`coppice sessions context`: what the model sees at a leaf, as JSON for programs or as a list for people."""

from collections.abc import Sequence

from coppice.format.codec import encode
from coppice.format.messages import EntryId
from coppice.interfaces.cli.output import line_width, write_json, write_line, write_notices
from coppice.interfaces.cli.printable import cut, printable
from coppice.interfaces.cli.session_rows import said_by
from coppice.session.answer import answer_at, every_answer
from coppice.session.manager import SessionManager


def print_answers(session: SessionManager, leaves: Sequence[EntryId | None] | None) -> None:
    """Print the answer at each of these leaves; None stands for the leaf, every entry and before the first one."""
    answers = every_answer(session) if leaves is None else (answer_at(session, leaf_id) for leaf_id in leaves)
    problems: dict[str, None] = {}
    for answer in answers:
        write_json(answer.fields)
        if answer.problem is not None:
            problems[answer.problem] = None
    write_notices(f"{session.session_file}: {problem}" for problem in problems)


def print_context(session: SessionManager, leaf_id: EntryId | None) -> None:
    """Print where we are, the model and the level, then a line for each message: entry, size in bytes, role, text."""
    model = session.model(leaf_id)
    entries, pairs, _ = session.build_context(leaf_id)
    sizes = [len(encode(message)) for _, message in pairs]
    named = "none yet" if model is None else printable(f"{model.provider}/{model.model_id}")
    write_line(
        f"at {printable(leaf_id or 'null')}, model {named}, thinking {printable(session.thinking_level(leaf_id))}: "
        f"{len(entries):,} entries, {len(pairs):,} messages, {sum(sizes):,} bytes"
    )
    width = line_width()
    for (entry_id, message), size in zip(pairs, sizes, strict=True):
        said = said_by(message)
        write_line(cut(f"{printable(entry_id):8}  {size:>9,}  {said.who:<11}  {said.text}", width))
