"""Anthropic's Messages API.

Prompt caching is on: one breakpoint after the system prompt (with the tools before it), one on the last message.
"""

from functools import partial
from typing import cast
from urllib.parse import urlsplit

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.profiles.anthropic import (
    ANTHROPIC_THINKING_BUDGET_MAP,
    AnthropicModelProfile,
    anthropic_model_profile,
    resolve_anthropic_effort,
)
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.settings import ThinkingEffort

from coppice.errors import ProviderError
from coppice.providers.base import ModelInfo, Request
from coppice.providers.pydantic_ai.anthropic_compaction import FORMS, REPLAY
from coppice.providers.pydantic_ai.effort import effort_of
from coppice.providers.pydantic_ai.model import PydanticAIModel, Wire
from coppice.providers.pydantic_ai.opaque import account_of
from coppice.providers.pydantic_ai.prices import PriceTag
from coppice.providers.pydantic_ai.replay import ANTHROPIC_MESSAGES

OFFICIAL_URL = "https://api.anthropic.com"

NO_KEY = "none"
"""Sent as the key to a server that needs none: the SDK makes no request without one."""

MIN_BUDGET = 1024
"""The smallest thinking budget the API takes, in tokens."""

STALE_THINKING = "bound to a different conversation"
"""In the 400 for replayed thinking whose conversation changed before it. Only some models check."""

BINDING_BETA = "thinking-binding-controls-2026-08-01"


def anthropic_model(
    model_id: str, key: str | None, base_url: str | None = None, *, remote_compaction: tuple[str, ...] | None = None
) -> PydanticAIModel:
    """A model of Anthropic, or of a server at ``base_url`` that speaks its Messages API.

    ``remote_compaction`` says which forms of compaction are offered; None is what is known of the server and the model.
    """
    profile = profile_of(model_id)
    price = PriceTag(model_id, provider_id="anthropic")
    official = base_url is None or urlsplit(base_url).hostname == urlsplit(OFFICIAL_URL).hostname
    known = tuple(FORMS) if official and compacts_on_demand(model_id) else ()
    info = ModelInfo(
        provider="anthropic",
        id=model_id,
        api=ANTHROPIC_MESSAGES,
        context_window=price.context_window,
        max_output=profile.get("anthropic_max_output_tokens"),
        base_url=base_url or OFFICIAL_URL,
        account=account_of(key),
        remote_compaction=known if remote_compaction is None else remote_compaction,
    )
    wire = Wire(
        partial(connect, model_id, base_url or OFFICIAL_URL),
        partial(settings, profile),
        is_stale_thinking,
        REPLAY,
        FORMS,
    )
    return PydanticAIModel(info, wire, price, key or NO_KEY)


def profile_of(model_id: str) -> AnthropicModelProfile:
    """What pydantic-ai knows about the model; empty for a model it does not know."""
    profile = anthropic_model_profile(model_id) or {}
    return cast(AnthropicModelProfile, profile)  # typed as the common profile; the keys read here are the family's


def compacts_on_demand(model_id: str) -> bool:
    """Whether Anthropic compacts for this model: a fact about its own API, so only its provider's profile has it."""
    profile = cast(AnthropicModelProfile, AnthropicProvider.model_profile(model_id) or {})  # as in `profile_of`
    return profile.get("anthropic_supports_on_demand_compaction", False)


def connect(model_id: str, base_url: str, key: str, client: httpx2.AsyncClient) -> PydanticModel:
    """Nothing but the arguments decides: the SDK takes what is missing from the environment.

    The profile's change keeps pydantic-ai from sending a second request by itself where thinking is stale.
    """
    sdk = AsyncAnthropic(api_key=key, base_url=base_url, http_client=client, max_retries=0)
    return AnthropicModel(
        model_id,
        provider=AnthropicProvider(anthropic_client=sdk),
        profile=AnthropicModelProfile(anthropic_binds_thinking_blocks=False),
    )


def settings(profile: AnthropicModelProfile, request: Request, drop_stale_thinking: bool) -> AnthropicModelSettings:
    """A request's settings: caching, and thinking as the level says."""
    chosen = AnthropicModelSettings(anthropic_cache_instructions=True, anthropic_cache_messages=True)
    effort = effort_of(request.thinking_level)
    if drop_stale_thinking and profile.get("anthropic_binds_thinking_blocks", False):
        chosen["anthropic_thinking"] = {
            "type": "adaptive",
            "display": "summarized",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        }
        chosen["anthropic_betas"] = [BINDING_BETA]
        add_effort(chosen, profile, effort or "low")
    elif effort is False:
        chosen["thinking"] = False
    elif effort is not None and profile.get("supports_thinking", False):
        add_thinking(chosen, profile, effort, request.max_output)
    return chosen


def add_thinking(
    chosen: AnthropicModelSettings, profile: AnthropicModelProfile, effort: ThinkingEffort, max_output: int | None
) -> None:
    """Thinking that is shown: newer models hide it unless asked for a summary, older ones think by a budget."""
    if profile.get("anthropic_supports_adaptive_thinking", False):
        chosen["anthropic_thinking"] = {"type": "adaptive", "display": "summarized"}
    else:
        budget = ANTHROPIC_THINKING_BUDGET_MAP[effort]
        if max_output is not None and budget >= max_output:
            budget = max_output // 2  # the budget must be below the output limit, and the answer needs room
        if budget < MIN_BUDGET:
            return
        chosen["anthropic_thinking"] = {"type": "enabled", "budget_tokens": budget}
    add_effort(chosen, profile, effort)


def add_effort(chosen: AnthropicModelSettings, profile: AnthropicModelProfile, effort: ThinkingEffort) -> None:
    """The effort, where the model takes one."""
    if profile.get("anthropic_supports_effort", False):
        chosen["anthropic_effort"] = resolve_anthropic_effort(
            effort,
            supports_xhigh=profile.get("anthropic_supports_xhigh_effort", False),
            supports_max=profile.get("anthropic_supports_max_effort", True),
        )


def is_stale_thinking(error: ProviderError) -> bool:
    """Whether a request was refused because its thinking belongs to another beginning of the conversation."""
    return error.status == 400 and STALE_THINKING in error.body
