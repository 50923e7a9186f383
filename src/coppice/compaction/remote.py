"""A provider's own compaction: OpenAI's endpoint and trigger forms (as Codex uses them), Anthropic's on-demand mode.

What comes back is filtered, what is opaque is bound to provider, API, server and account and replayed as it came.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coppice.compaction.ask import delay_ms
from coppice.compaction.estimate import estimate_request
from coppice.compaction.kept import Kept, context_messages, held_message, kept_user_messages, with_context
from coppice.compaction.strategy import CompactionFailed, NothingToCompact, Result, Retrying, Work
from coppice.errors import ContextOverflow, ProviderError
from coppice.format.messages import (
    AssistantMessage,
    Binding,
    JsonObject,
    JsonValue,
    OpaqueMessage,
    RequestMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    is_object,
)
from coppice.providers.base import Compacted, CompactingModel, Model, ModelInfo, Request

COMPACTION_TYPES = ("compaction", "context_compaction")
MAX_RETRIES = 2
"""Retries of a remote compaction whose stream was cut or whose server was busy (Codex's number for its second form)."""

REWRITTEN = "[output left out: it was larger than the context that is left]"


class NotOffered(CompactionFailed):
    """The provider (or this server) does not offer the endpoint."""


@dataclass(frozen=True, slots=True)
class RemoteStrategy:
    """Have the provider compact. ``name`` is codex-remote or anthropic-server."""

    name: str = "codex-remote"

    async def compact(self, work: Work) -> Result:
        """See `CompactionStrategy`."""
        model = compacting(work.model)
        form = form_for(model, self.name, work.settings.remote)
        if not any(isinstance(message, AssistantMessage) for _, message in work.view.pairs):
            raise NothingToCompact("nothing to compact: there is no reply in the context yet")
        if form.startswith("openai") and work.instructions:
            raise CompactionFailed(f"{form} takes no instructions; use --strategy summary or codex-inline with them")
        request = fitted(work)
        compacted = await _ask(model, request, form, work)
        kept = _kept(work, compacted, form)
        items = [part.item for part in kept]
        after = sum(work.measure(part.message) for part in kept)
        info = work.model.info
        summary = (
            f"[{info.provider} condensed the conversation before this point itself. What it made of it can be read by "
            f"{info.provider} only; {len(kept) - 1} messages are kept as they were.]"
        )
        details: JsonObject = {"form": form, "binding": _binding_json(binding_of(info))}
        return Result(self.name, summary, None, after, compacted.usage, details, tuple(items))


def compacting(model: Model) -> CompactingModel:
    """The model as one that can compact.

    Raises:
        NotOffered: its provider does not offer it.
    """
    if not model.info.remote_compaction or not hasattr(model, "compact"):
        raise NotOffered(f"{model.info.name}: its provider offers no compaction of its own")
    return model  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  (checked by what it offers)


def form_for(model: Model, strategy: str, wanted: tuple[str, ...] | None) -> str:
    """The form to use: the first wanted one the model's provider offers.

    Raises:
        NotOffered: none fits the strategy.
    """
    prefix = "anthropic" if strategy == "anthropic-server" else "openai"
    offered = [form for form in model.info.remote_compaction if form.startswith(prefix)]
    chosen = [form for form in wanted or offered if form in offered]
    if not chosen:
        raise NotOffered(f"{model.info.name}: {strategy} is not offered by its provider")
    return chosen[0]


def binding_of(info: ModelInfo) -> Binding:
    """Whose the opaque items of a model are."""
    return Binding(info.provider, info.api, info.base_url, info.account)


def _binding_json(binding: Binding) -> JsonObject:
    fields: JsonObject = {"provider": binding.provider, "api": binding.api}
    fields |= {"baseUrl": binding.base_url} if binding.base_url else {}
    return fields | ({"account": binding.account} if binding.account else {})


async def _ask(model: CompactingModel, request: Request, form: str, work: Work) -> Compacted:
    attempt = 0
    while True:
        try:
            return await model.compact(request, form, instructions=work.instructions)
        except ContextOverflow as error:
            raise CompactionFailed(f"the conversation is too large for {form}: {error}") from error
        except ProviderError as error:
            if error.status == 404:
                raise NotOffered(f"{model.info.name}: {form} is not offered at this address: {error}") from error
            attempt += 1
            if not error.transient or attempt > MAX_RETRIES:
                raise
            delay = delay_ms(attempt, 0)
            work.on_retry(Retrying(attempt, MAX_RETRIES, delay, str(error)))
            await asyncio.sleep(delay / 1000)


# --- fitting the request ---------------------------------------------------------------------------


def fitted(work: Work) -> Request:
    """The request with outputs of tools replaced, newest first, until it fits the window; call ids stay.

    Raises:
        CompactionFailed: it does not fit even then; nothing was sent.
    """
    window = work.limits.window
    request = work.request
    if window is None or _size(request) <= window:
        return request
    messages = list(request.messages)
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, ToolResultMessage):
            messages[at] = ToolResultMessage(
                message.tool_call_id,
                message.tool_name,
                (TextBlock(REWRITTEN),),
                None,
                message.is_error,
                message.timestamp,
            )
            request = replace(request, messages=tuple(messages))
            if _size(request) <= window:
                return request
    raise CompactionFailed(
        f"the conversation does not fit the window of {window:,} tokens even without its tools' outputs; "
        "use --strategy summary, or go back in /tree"
    )


def _size(request: Request) -> int:
    return estimate_request(request.system_prompt, request.messages, request.tools)


# --- what is kept ----------------------------------------------------------------------------------


def _kept(work: Work, compacted: Compacted, form: str) -> list[Kept]:
    binding = binding_of(work.model.info)
    opaque = [item for item in compacted.items if item.get("type") in COMPACTION_TYPES]
    if len(opaque) != 1:
        raise CompactionFailed(f"the provider answered with {len(opaque)} compaction items instead of one")
    blob = Kept({"item": opaque[0]}, OpaqueMessage(opaque[0], binding))
    if form == "anthropic":  # the block comes first there; the newest user message stays behind it, word for word
        return [blob, *kept_user_messages(work, work.settings.remote_user_tokens, images=True)[-1:]]
    if form == "openai-v1":
        kept = returned_messages(compacted.items)
    else:
        kept = kept_user_messages(work, work.settings.remote_user_tokens, images=True)
    if work.phase == "mid_turn":
        kept = with_context(kept, context_messages(work))
    return [*kept, blob]


def returned_messages(items: Sequence[JsonObject]) -> list[Kept]:
    """The user and assistant messages among the items a server returned; everything else is dropped (section 4.3)."""
    kept: list[Kept] = []
    for item in items:
        message = _message_in(item)
        if message is not None:
            kept.append(Kept(held_message(message), message))
    return kept


def _message_in(item: JsonObject) -> RequestMessage | None:
    if item.get("type") not in ("message", None):
        return None
    text = _text_in(item.get("content"))
    if not text or _is_wrapper(text):
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


_WRAPPERS = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")


def _is_wrapper(text: str) -> bool:
    """Whether a user-role text is one of the wrappers that carry a context, not what a person said."""
    return text.lstrip().startswith(_WRAPPERS)
