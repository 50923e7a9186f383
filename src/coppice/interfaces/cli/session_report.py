"""`coppice sessions show`: what a session is, in one report: header, counts, name, labels, model, damage, holder."""

from collections import Counter
from collections.abc import Iterator

from coppice.format.heads import Kind
from coppice.format.messages import JsonObject
from coppice.interfaces.cli.output import write_json, write_line, write_notices
from coppice.interfaces.cli.printable import first_line, printable
from coppice.interfaces.cli.session_rows import KIND_NAMES
from coppice.session.answer import labels_of
from coppice.session.manager import SessionManager
from coppice.session.opening import notices_of
from coppice.storage.locks import holder_of
from coppice.tree.family import NONE
from coppice.tree.index import TreeIndex
from coppice.tree.path import tips

BATCH = 500
"""Lines read at once while looking for invalid UTF-8 (our choice)."""

SHOWN_TIPS = 5
"""Tips named for people, the newest; JSON has them all."""


def print_report(session: SessionManager, *, as_json: bool) -> None:
    """Print the report on a session."""
    _find_invalid_text(session)
    report = report_on(session)
    if as_json:
        write_json(report)
        return
    for line in _lines(report):
        write_line(line)
    path = session.session_file
    if path is not None:
        write_notices(notices_of(session.store, path))


def _find_invalid_text(session: SessionManager) -> None:
    """Decode every entry whose line is not UTF-8, so that it is among the damages; the heads do not tell."""
    store = session.store
    for start in range(0, len(store.index), BATCH):
        ordinals = range(start, min(start + BATCH, len(store.index)))
        for ordinal, line in zip(ordinals, store.lines(ordinals), strict=True):
            if not line.isascii() and not _is_utf_8(line):
                store.entry(ordinal)


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def report_on(session: SessionManager) -> JsonObject:
    """The report as a JSON object."""
    index, header, path = session.index, session.get_header(), session.session_file
    model = session.model()
    holder = holder_of(session.setup.home, path) if path is not None else None
    return {
        "path": str(path),
        "id": header.id,
        "version": session.store.version,
        "timestamp": header.timestamp,
        "cwd": header.cwd,
        "parentSession": header.parent_session,
        "entries": len(index),
        "kinds": {KIND_NAMES[Kind(kind)]: count for kind, count in sorted(Counter(index.kinds).items())},
        **_shape(index),
        "leaf": session.get_leaf_id(),
        "name": session.get_session_name(),
        "labels": labels_of(session),
        "model": None if model is None else {"provider": model.provider, "modelId": model.model_id},
        "thinkingLevel": session.thinking_level(),
        "damageCount": index.facts.damage_count,
        "damage": [{"line": damage.line, "text": damage.text} for damage in index.facts.damages],
        "bridges": [
            {"id": index.ids[ordinal], "line": index.where.numbers[ordinal], "certain": certain}
            for ordinal, certain in index.facts.bridges.items()
        ],
        "holder": None
        if holder is None
        else {"pid": holder.pid, "host": holder.host, "start": holder.start, "command": holder.command},
    }


def _shape(index: TreeIndex) -> JsonObject:
    """Roots, branch points and tips of the tree, leaf markers left out."""
    marker = Kind.LEAF
    children = Counter(parent for parent, kind in zip(index.parents, index.kinds, strict=True) if kind != marker)
    return {
        "roots": children[NONE],
        "branchPoints": sum(count > 1 for parent, count in children.items() if parent != NONE),
        "tips": [index.ids[ordinal] for ordinal in tips(index)],
    }


def _lines(report: JsonObject) -> Iterator[str]:
    def plain(key: str) -> str:
        return printable(str(report[key]))

    yield f"file      {plain('path')}"
    yield f"session   {plain('id')}, version {report['version']}, begun {plain('timestamp')}"
    yield f"directory {plain('cwd')}"
    if report["parentSession"]:
        yield f"from      {plain('parentSession')}"
    if report["name"]:
        yield f"name      {first_line(report['name'])}"
    kinds = ", ".join(f"{count:,} {name}" for name, count in report["kinds"].items())
    yield f"entries   {report['entries']:,}" + (f": {kinds}" if kinds else "")
    tips_shown = ", ".join(printable(tip) for tip in report["tips"][-SHOWN_TIPS:])
    yield (
        f"tree      {report['roots']:,} roots, {report['branchPoints']:,} branch points, {len(report['tips']):,} tips"
        + (f", the last {tips_shown}" if tips_shown else "")
    )
    yield f"leaf      {plain('leaf') if report['leaf'] else 'before the first entry'}"
    model = report["model"]
    named = printable(f"{model['provider']}/{model['modelId']}") if model else "none yet"
    yield f"model     {named}, thinking {plain('thinkingLevel')}"
    for target, label in report["labels"].items():
        yield f"label     {printable(target)}  {first_line(label)}"
    if report["holder"]:
        holder = report["holder"]
        yield f"held by   process {holder['pid']} on {holder['host']} ({holder['command']}, since {holder['start']})"
    yield from _damage_lines(report)


def _damage_lines(report: JsonObject) -> Iterator[str]:
    for damage in report["damage"]:
        yield f"damage    line {damage['line']}: {printable(damage['text'])}"
    more = report["damageCount"] - len(report["damage"])
    if more > 0:
        yield f"damage    and {more:,} more"
    for bridge in report["bridges"]:
        doubt = "certain, one chain came before" if bridge["certain"] else "a guess, the tree has branches there"
        yield f"bridge    line {bridge['line']}: {printable(bridge['id'])} is tied to the entry before it ({doubt})"
