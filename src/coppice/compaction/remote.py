"""A provider's own compaction: OpenAI's endpoint and trigger forms (as Codex uses them), Anthropic's on-demand mode.

What comes back is filtered, what is opaque is bound to provider, API, server and account and replayed as it came.
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from coppice.compaction.ask import delay_ms
from coppice.compaction.estimate import estimate_message, estimate_request
from coppice.compaction.kept import (
    Kept,
    context_messages,
    every_user_message,
    held_message,
    is_context,
    kept_user_messages,
    with_context,
)
from coppice.compaction.strategy import CompactionFailed, NothingToCompact, OpaqueContext, Result, Retrying, Work
from coppice.errors import ContextOverflow, ProviderError
from coppice.format.messages import (
    AssistantMessage,
    Binding,
    CompactionSummaryMessage,
    JsonObject,
    JsonValue,
    Message,
    OpaqueMessage,
    RequestMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    is_object,
    text_of,
)
from coppice.providers.base import Compacted, CompactingModel, Model, ModelInfo, Request
from coppice.tree.context import ContextView
from coppice.tree.pairing import COMPACTION_OPENING, SUMMARY_CLOSING
from coppice.tree.replacement import opaque_item

COMPACTION_TYPES = ("compaction", "context_compaction")
MAX_RETRIES = 2
"""Retries of a remote compaction whose stream was cut or whose server was busy (Codex's number for its second form)."""

REWRITTEN = "[output left out: it was larger than the context that is left]"


WRAPPERS = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")
"""How Codex's user-role messages begin that carry a context and are not what a person said."""

REFUSALS = re.compile(
    r"unknown|unsupported|unrecogni[sz]ed|not supported|not permitted|invalid value|no such|not found", re.IGNORECASE
)
"""Words of a 400 that speaks of compaction and means that the server has none."""

UNKNOWN_MODEL = re.compile(r"\bmodel\W+\S+ (does not exist|not found)|not_found_error\W+model:", re.IGNORECASE)

UNSUPPORTED: set[tuple[str, str | None, str]] = set()
"""(provider, server, form) that a server of this process turned out not to offer; it is not asked again."""


class NotOffered(CompactionFailed):
    """The provider (or this server) does not offer the endpoint."""


class DoesNotFit(CompactionFailed):
    """The conversation is too large even for the provider's own compaction."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A good answer: by which form it came, and how often it was asked for again."""

    form: str
    compacted: Compacted
    retries: int


@dataclass(frozen=True, slots=True)
class RemoteStrategy:
    """Have the provider compact. ``name`` is codex-remote or anthropic-server."""

    name: str = "codex-remote"

    async def compact(self, work: Work) -> Result:
        """See `CompactionStrategy`.

        Raises:
            NotOffered: the server does not offer it, and is not asked again in this process.
        """
        model = compacting(work.model)
        forms = forms_for(work.model.info, self.name, work.settings.remote)
        if not any(isinstance(message, AssistantMessage | OpaqueMessage) for _, message in work.view.pairs):
            raise NothingToCompact("nothing to compact: there is no reply in the context yet")
        if work.instructions and not any(form == "anthropic" for form in forms):
            raise CompactionFailed(
                f"{self.name} takes no instructions; use --strategy summary or codex-inline with them"
            )
        asked = await _first_offered(model, forms, fitted(work), work)
        compacted, form = asked.compacted, asked.form
        kept, opaque = _kept(work, compacted, form), _opaque_of(compacted)
        after = sum(work.measure(part.message) for part in kept)
        details: JsonObject = {"form": form, "binding": _binding_json(binding_of(work.model.info))}
        details["retries"] = asked.retries
        if dropped := _dropped(compacted, form, kept):
            details["droppedItems"] = dropped
        items = tuple(part.item for part in kept)
        return Result(
            self.name, _readable(opaque, work.model.info, items), None, after, compacted.usage, details, items
        )


def compacting(model: Model) -> CompactingModel:
    """The model as one that can compact.

    Raises:
        NotOffered: its provider does not offer it.
    """
    if not model.info.remote_compaction or not hasattr(model, "compact"):
        raise NotOffered(f"{model.info.name}: its provider offers no compaction of its own")
    return model  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  (checked by what it offers)


def offered_forms(info: ModelInfo) -> tuple[str, ...]:
    """The forms of compaction a model's server offers, as far as this process knows."""
    return tuple(form for form in info.remote_compaction if (info.provider, info.base_url, form) not in UNSUPPORTED)


def forms_for(info: ModelInfo, strategy: str, wanted: tuple[str, ...] | None) -> list[str]:
    """The forms to try, in order: the wanted ones that the model's server offers.

    Raises:
        NotOffered: none fits the strategy.
    """
    prefix = "anthropic" if strategy == "anthropic-server" else "openai"
    offered = [form for form in offered_forms(info) if form.startswith(prefix)]
    chosen = [form for form in wanted or offered if form in offered]
    if not chosen:
        raise NotOffered(f"{info.name}: {strategy} is not offered by its server ({info.base_url or info.provider})")
    return chosen


def binding_of(info: ModelInfo) -> Binding:
    """Whose the opaque items of a model are."""
    return Binding(info.provider, info.api, info.base_url, info.account)


def _binding_json(binding: Binding) -> JsonObject:
    fields: JsonObject = {"provider": binding.provider, "api": binding.api}
    fields |= {"baseUrl": binding.base_url} if binding.base_url else {}
    return fields | ({"account": binding.account} if binding.account else {})


def has_opaque(view: ContextView) -> bool:
    """Whether a context holds what only its provider can read."""
    return any(isinstance(message, OpaqueMessage) for _, message in view.pairs)


def check_readable(view: ContextView, info: ModelInfo) -> None:
    """Refuse a context that holds what the model cannot read: nothing of it is sent, nothing is left out silently.

    Raises:
        OpaqueContext: it does; the text says what can be done.
    """
    own = binding_of(info)
    foreign = next((m.binding for _, m in view.pairs if isinstance(m, OpaqueMessage) and m.binding != own), None)
    if foreign is None:
        return
    place = f" at {foreign.base_url}" if foreign.base_url else ""
    who = f"{foreign.provider}{place}" if (foreign.provider, foreign.base_url) != (own.provider, own.base_url) else ""
    raise OpaqueContext(
        f"{info.name} cannot read this context: a compaction in it was made by {who or 'another account or API'}, and "
        "only that can read it. Nothing was sent. Either go back to that model (/model) and account; or go on from the "
        "messages before the compaction (/compact undo); or go on with its readable summary (/compact readable), which "
        "may say little"
    )


# --- asking ----------------------------------------------------------------------------------------


async def _first_offered(model: CompactingModel, forms: Sequence[str], request: Request, work: Work) -> _Asked:
    """The answer of the first form that the server turns out to offer."""
    for form in forms[:-1]:
        try:
            return await _ask(model, request, form, work)
        except NotOffered:
            continue
    return await _ask(model, request, forms[-1], work)


def is_not_offered(error: ProviderError) -> bool:
    """Whether a failure says that the server has no such compaction. A model that is not there says nothing of it."""
    text = f"{error} {error.body}"
    if error.status in (404, 405, 501):
        return error.code != "model_not_found" and UNKNOWN_MODEL.search(text) is None
    return error.status == 400 and "compact" in text.lower() and REFUSALS.search(text) is not None


async def _ask(model: CompactingModel, request: Request, form: str, work: Work) -> _Asked:
    attempt = 0
    while True:
        try:
            return _Asked(form, await model.compact(request, form, instructions=work.instructions), attempt)
        except ContextOverflow as error:
            raise DoesNotFit(f"the conversation is too large for {form}: {error}") from error
        except ProviderError as error:
            if is_not_offered(error):
                UNSUPPORTED.add((model.info.provider, model.info.base_url, form))
                raise NotOffered(f"{model.info.name}: {form} is not offered at this address: {error}") from error
            attempt += 1
            if not error.transient or attempt > MAX_RETRIES:
                raise
            delay = max(delay_ms(attempt, random.uniform(-1, 1)), min(error.retry_after_ms or 0, 60_000))
            work.on_retry(Retrying(attempt, MAX_RETRIES, delay, str(error)))
            await asyncio.sleep(delay / 1000)


# --- fitting the request ---------------------------------------------------------------------------


def fitted(work: Work) -> Request:
    """The request with outputs of tools replaced, newest first, until it fits the window; call ids stay.

    Raises:
        DoesNotFit: not even then; nothing was sent.
    """
    window = work.limits.window
    size = estimate_request(work.request.system_prompt, work.request.messages, work.request.tools)
    if window is None or size <= window:
        return work.request
    messages = list(work.request.messages)
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, ToolResultMessage):
            messages[at] = msgspec.structs.replace(message, content=(TextBlock(REWRITTEN),), details=None)
            size += estimate_message(messages[at]) - estimate_message(message)
            if size <= window:
                return replace(work.request, messages=tuple(messages))
    raise DoesNotFit(
        f"the conversation does not fit the window of {window:,} tokens even without its tools' outputs; "
        "use --strategy summary, or go back in /tree"
    )


# --- what is kept ----------------------------------------------------------------------------------


def _opaque_of(compacted: Compacted) -> JsonObject:
    opaque = [item for item in compacted.items if item.get("type") in COMPACTION_TYPES]
    if len(opaque) != 1:
        raise CompactionFailed(f"the provider answered with {len(opaque)} compaction items instead of one")
    return opaque[0]


def _readable(opaque: JsonObject, info: ModelInfo, items: Sequence[JsonObject]) -> str:
    """The summary to store: what the provider made, where people can read it, else a line that says it cannot be read."""
    content = opaque.get("content")
    if isinstance(content, str) and content.strip():
        return content.strip()
    return (
        f"[{info.provider} condensed the conversation before this point itself. What it made of it can be read by "
        f"{info.provider} only; messages kept as they were: {len(items) - 1}]"
    )


def _dropped(compacted: Compacted, form: str, kept: Sequence[Kept]) -> JsonObject:
    """How many of the items that came were left out, by their type or role."""
    came: Counter[str] = Counter(_kind_of(item) for item in compacted.items)
    used: Counter[str] = Counter(COMPACTION_TYPES)
    if form == "openai-v1":
        used += Counter(_role_of(part.message) for part in kept)
    return dict(came - used)


def _kind_of(item: JsonObject) -> str:
    return str(item.get("role") if item.get("type") in ("message", None) else item.get("type"))


def _role_of(message: Message) -> str:
    match message:
        case AssistantMessage():
            return "assistant"
        case UserMessage() | CompactionSummaryMessage():
            return "user"
        case _:
            return ""


def _kept(work: Work, compacted: Compacted, form: str) -> list[Kept]:
    item = _opaque_of(compacted)
    blob = Kept(opaque_item(item), OpaqueMessage(item, binding_of(work.model.info)))
    if form == "openai-v1":
        kept = returned_messages(compacted.items, work)
    else:
        kept = kept_user_messages(work, work.settings.remote_user_tokens, images=True)
    if form == "anthropic":  # the block comes first there; the newest user message stays behind it, word for word
        kept = kept[-1:]
    if work.phase == "mid_turn":
        kept = with_context(kept, context_messages(work))
    return [blob, *kept] if form == "anthropic" else [*kept, blob]


def returned_messages(items: Sequence[JsonObject], work: Work) -> list[Kept]:
    """The user and assistant messages among the items a server returned; everything else is dropped (section 4.3).

    A user message that was sent as it is becomes a reference, and an earlier summary stays marked as one: the server
    gives no ids, so text and order decide, newest first. What an extension declared as context has its own place.
    """
    sent = every_user_message(work)
    context = {text_of(message.content) for _, message in work.view.pairs if is_context(message)}
    kept: list[Kept] = []
    for item in reversed(items):
        message = _message_in(item)
        if isinstance(message, UserMessage):
            said = text_of(message.content)
            same = _same(sent, work, said)
            if same is None and (said in context or said.lstrip().startswith(WRAPPERS)):
                continue
            kept.append(same or Kept(held_message(message), message))
        elif message is not None:
            kept.append(Kept(held_message(message), message))
    return kept[::-1]


def _same(sent: list[Kept], work: Work, said: str) -> Kept | None:
    """What was sent with this text: the summary, or the newest message; that and what is newer is taken from the list."""
    if said == COMPACTION_OPENING + work.earlier_summary + SUMMARY_CLOSING:
        summary = CompactionSummaryMessage(work.earlier_summary)
        return Kept(held_message(summary), summary)
    for at in range(len(sent) - 1, -1, -1):
        if isinstance(kept := sent[at].message, UserMessage) and text_of(kept.content) == said:
            found = sent[at]
            del sent[at:]
            return found
    return None


def _message_in(item: JsonObject) -> RequestMessage | None:
    if item.get("type") not in ("message", None):
        return None
    text = _text_in(item.get("content"))
    if not text:
        return None
    match item.get("role"):
        case "user":
            return UserMessage(text)
        case "assistant":
            return AssistantMessage((TextBlock(text),))
        case _:
            return None


def _text_in(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts: list[JsonValue] = content  # pyright: ignore[reportUnknownVariableType]  (JSON edge)
    return "\n".join(str(part["text"]) for part in parts if is_object(part) and isinstance(part.get("text"), str))
