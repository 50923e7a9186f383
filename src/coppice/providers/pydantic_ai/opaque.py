"""Opaque items of a provider's own compaction, on their way back to it.

pydantic-ai has no part that carries an item as it came: unknown fields and the order of keys would be lost. So a
message with a mark is put in the item's place, and exchanged for the item when the request is sent (`exchange`).
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from coppice.errors import ProviderError
from coppice.format.messages import Binding, JsonObject, JsonValue, OpaqueMessage, is_object
from coppice.providers.base import ModelInfo, Request
from coppice.providers.pydantic_ai.exchange import Draft

ACCOUNT_PREFIX = "coppice-account:"

FOREIGN = "foreign_compaction"
"""`ProviderError.code` of a request that was not sent, because it holds another provider's or account's item."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How an API takes opaque items: in which list of the body, wrapped in what, with which headers.

    ``first`` says that there can be one, before every message.
    """

    entries: str
    wrap: Callable[[JsonObject], JsonObject]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    first: bool = False


def account_of(key: str | None) -> str | None:
    """A fingerprint of a key: 16 hexadecimal digits of SHA-256 over a fixed prefix and the key. None without a key."""
    return hashlib.sha256(f"{ACCOUNT_PREFIX}{key}".encode()).hexdigest()[:16] if key else None


def binding_of(info: ModelInfo) -> Binding:
    """Whose items the model of ``info`` makes and reads."""
    return Binding(info.provider, info.api, info.base_url, info.account)


def arranged(request: Request, info: ModelInfo, replay: Replay | None) -> Request:
    """The request with its opaque items where the API takes them.

    Raises:
        ProviderError: an item is not this model's, or the API takes no such items, or not so many.
    """
    items = [message for message in request.messages if isinstance(message, OpaqueMessage)]
    if not items:
        return request
    if replay is None or any(item.binding != binding_of(info) for item in items):
        raise ProviderError(
            f"{info.provider}: the conversation holds a compaction that {info.name} cannot read: it was made by another "
            "provider, server or account; go back before it, or to that model",
            code=FOREIGN,
        )
    if not replay.first:
        return request
    if len(items) > 1:
        raise ProviderError(f"{info.provider}: the conversation holds {len(items)} compactions; one can be sent")
    others = (message for message in request.messages if not isinstance(message, OpaqueMessage))
    return replace(request, messages=(*items, *others))


def marked(request: Request) -> dict[str, JsonObject]:
    """A mark for each opaque item, in order. Nobody can guess one, so no text of the conversation is taken for it."""
    return {
        f"compaction {secrets.token_hex(16)}": message.item
        for message in request.messages
        if isinstance(message, OpaqueMessage)
    }


def put_back(replay: Replay, items: Mapping[str, JsonObject], draft: Draft) -> Draft:
    """The draft with each mark's message exchanged for its item.

    Raises:
        ProviderError: a mark is not there exactly once; nothing is sent.
    """
    entries = draft.body[replay.entries]
    marks = [mark for entry in entries if (mark := words_of(entry)) in items]
    if marks != list(items):
        raise ProviderError("the request cannot be sent: a compaction could not be put back into the conversation")
    whole = [replay.wrap(items[mark]) if (mark := words_of(entry)) in items else entry for entry in entries]
    return replace(draft, body=draft.body | {replay.entries: whole}, headers={**draft.headers, **replay.headers})


def words_of(entry: JsonValue) -> str:
    """The text of a message that is nothing but one text."""
    content = entry.get("content") if is_object(entry) else None
    match content:
        case str():
            return content
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return ""
