"""Which model a session talks to: what was asked for, what the path says, what there is a key for.

The model in force is a fact of the path (its newest model change or reply). A wish made at start-up is recorded with
the next prompt, so that opening and closing a session writes nothing.
"""

import os
from collections.abc import Callable, Mapping

from coppice.errors import UnknownModel
from coppice.format.entries import MessageEntry, reply_in
from coppice.format.heads import Kind
from coppice.format.messages import AssistantMessage
from coppice.providers.base import Model
from coppice.providers.catalogue import access_to, find_default_model, resolve_model
from coppice.session.manager import SessionManager
from coppice.tree.context import ModelRef
from coppice.tree.family import NONE

Resolve = Callable[[str], Model]
"""Makes a model of a name ``provider/id``.

Raises:
    UnknownModel: it cannot be used; the text says why.
"""

DEMO = "demo/demo"
"""The name of the model that stands in where there is no key."""


def resolver(base_url: str | None = None, environ: Mapping[str, str] = os.environ) -> Resolve:
    """Resolves names by the keys in the environment, at another server where `base_url` names one."""

    def resolve(name: str) -> Model:
        return resolve_model(name, base_url=base_url, environ=environ)

    return resolve


def check_model(name: str, *, base_url: str | None = None, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a name that cannot be used, without loading anything for it.

    Raises:
        UnknownModel: no such provider, no id, no key, or an address that is none.
    """
    access_to(name, base_url=base_url, environ=environ)


def default_name(setting: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The model for a session that names none: the setting, else what there is a key for, else the demo model."""
    return setting or find_default_model(environ) or DEMO


def is_model(model: Model | None, wanted: ModelRef) -> bool:
    """Whether a model is the one the path names."""
    return model is not None and (model.info.provider, model.info.id) == wanted


def follow_path(current: Model | None, wanted: ModelRef | None, resolve: Resolve) -> tuple[Model | None, str | None]:
    """The model for a path (None: there is none yet), and why it is another one than the path names, if it is."""
    if wanted is None or is_model(current, wanted):
        return current, None
    name = f"{wanted.provider}/{wanted.model_id}"
    try:
        return resolve(name), None
    except UnknownModel as error:
        return current, f"this branch was made with {name}, which cannot be used now ({error})"


def level_on_path(session: SessionManager, setting: str) -> str:
    """The thinking level at the leaf; where the path names none and holds no message yet, what the settings say."""
    index, leaf = session.index, session.leaf
    if leaf != NONE and index.newest.level[leaf] != NONE:
        return session.thinking_level()
    begun = any(isinstance(entry, MessageEntry) for entry in session.turn_after(None))
    return session.thinking_level() if begun else setting


def newest_reply(session: SessionManager) -> tuple[AssistantMessage | None, bool]:
    """The newest reply on the path that was not cut off or failed, and whether a compaction stands after it."""
    index, at, is_compacted = session.index, session.leaf, False
    while at != NONE:
        if index.kinds[at] == Kind.COMPACTION:
            is_compacted = True
        elif index.kinds[at] == Kind.ASSISTANT:
            reply = reply_in(session.store.entry(at))
            if reply is not None and reply.stop_reason not in ("error", "aborted"):
                return reply, is_compacted
        at = index.parents[at]
    return None, is_compacted
