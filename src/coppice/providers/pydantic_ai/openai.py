"""OpenAI's Responses API, and Chat Completions for every other server that speaks OpenAI's protocol.

With Responses nothing is stored at the provider: each request carries the whole conversation, with the reasoning
encrypted, and names the session as the key of the prompt cache.
"""

from functools import partial
from urllib.parse import urlsplit

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models.openai import (
    OpenAIChatModel,
    OpenAIChatModelSettings,
    OpenAIResponsesModel,
    OpenAIResponsesModelSettings,
)
from pydantic_ai.profiles.openai import OpenAIModelProfile, openai_model_profile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from coppice.errors import ProviderError
from coppice.providers.base import ModelInfo, Request
from coppice.providers.pydantic_ai.effort import effort_of
from coppice.providers.pydantic_ai.model import PydanticAIModel, Wire
from coppice.providers.pydantic_ai.opaque import account_of
from coppice.providers.pydantic_ai.openai_compaction import FORMS, REPLAY
from coppice.providers.pydantic_ai.prices import PriceTag
from coppice.providers.pydantic_ai.replay import OPENAI_COMPLETIONS, OPENAI_RESPONSES

OFFICIAL_URL = "https://api.openai.com/v1"

NO_KEY = "none"
"""Sent as the key to a server that needs none: the protocol has no request without one."""


def responses_model(
    model_id: str, key: str | None, base_url: str = OFFICIAL_URL, *, remote_compaction: tuple[str, ...] | None = None
) -> PydanticAIModel:
    """A model of OpenAI. ``base_url`` is for tests and proxies of the same API.

    ``remote_compaction`` says which forms of compaction its server offers; None is what is known of it: OpenAI's own
    offers all.
    """
    price = PriceTag(model_id, provider_id="openai")
    known = tuple(FORMS) if urlsplit(base_url).hostname == urlsplit(OFFICIAL_URL).hostname else ()
    info = ModelInfo(
        provider="openai",
        id=model_id,
        api=OPENAI_RESPONSES,
        context_window=price.context_window,
        base_url=base_url,
        account=account_of(key),
        remote_compaction=known if remote_compaction is None else remote_compaction,
    )
    reasons = openai_model_profile(model_id).get("supports_thinking", False)
    wire = Wire(
        partial(connect_responses, model_id, base_url),
        partial(responses_settings, reasons),
        never_stale_thinking,
        REPLAY,
        FORMS,
    )
    return PydanticAIModel(info, wire, price, key or NO_KEY)


def completions_model(model_id: str, key: str | None, base_url: str) -> PydanticAIModel:
    """A model of another server that speaks Chat Completions, such as llama.cpp, Ollama, vLLM or a gateway."""
    price = PriceTag(model_id, base_url=base_url)
    info = ModelInfo(
        provider="openai",
        id=model_id,
        api=OPENAI_COMPLETIONS,
        context_window=price.context_window,
        base_url=base_url,
        account=account_of(key),
    )
    wire = Wire(partial(connect_completions, model_id, base_url), completions_settings, never_stale_thinking)
    return PydanticAIModel(info, wire, price, key or NO_KEY)


def connect_responses(model_id: str, base_url: str, key: str, client: httpx2.AsyncClient) -> PydanticModel:
    """Nothing but the arguments decides."""
    sdk = AsyncOpenAI(api_key=key, base_url=base_url, http_client=client, max_retries=0)
    return OpenAIResponsesModel(model_id, provider=OpenAIProvider(openai_client=sdk))


def connect_completions(model_id: str, base_url: str, key: str, client: httpx2.AsyncClient) -> PydanticModel:
    """``max_tokens`` is the name every server knows, and a stream without a finish reason was cut."""
    sdk = AsyncOpenAI(api_key=key, base_url=base_url, http_client=client, max_retries=0)
    return OpenAIChatModel(
        model_id,
        provider=OpenAICompatibleProvider("openai", openai_client=sdk),
        profile=OpenAIModelProfile(
            openai_chat_supports_max_completion_tokens=False, openai_chat_streaming_requires_finish_reason=True
        ),
    )


def responses_settings(reasons: bool, request: Request, _: bool) -> OpenAIResponsesModelSettings:
    """A request's settings for Responses. Summaries of the reasoning are asked for where there is some.

    Diagnostics of the cache are not asked for: they would put the id of the last response into each request.
    """
    chosen = OpenAIResponsesModelSettings(openai_store=False, openai_prompt_cache_diagnostics=False)
    if request.cache_key:
        chosen["openai_prompt_cache_key"] = request.cache_key
    effort = effort_of(request.thinking_level)
    if effort is not None:
        chosen["thinking"] = effort
        if effort and reasons:
            chosen["openai_reasoning_summary"] = "auto"
    return chosen


def completions_settings(request: Request, _: bool) -> OpenAIChatModelSettings:
    """A request's settings for Chat Completions."""
    chosen = OpenAIChatModelSettings()
    effort = effort_of(request.thinking_level)
    if effort is not None:
        chosen["thinking"] = effort
    return chosen


def never_stale_thinking(_: ProviderError) -> bool:
    """OpenAI's reasoning is bound to no conversation."""
    return False
