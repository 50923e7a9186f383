"""Failed requests as `ProviderError` and `ContextOverflow`.

One place decides what is transient. An error inside an open stream came with HTTP status 200; it gets the status that
the provider gives the same error before a stream opens, where that is known. No text holds the key.
"""

import json

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)
from pydantic_ai.messages import ModelResponse

from coppice.errors import ContextOverflow, ProviderError
from coppice.format.messages import JsonObject, JsonValue
from coppice.providers.overflow import is_overflow
from coppice.providers.pydantic_ai.replay import object_in, text_of_field

RequestFailure = AgentRunError | UserError | httpx2.TransportError
"""What pydantic-ai raises for a failed request; the last is what escapes it in the middle of a stream."""

REQUEST_FAILURES = (AgentRunError, UserError, httpx2.TransportError)

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses below 500 that pass by themselves: time-out, conflict, too early, rate. The SDKs retry the same ones."""

BODY_LIMIT = 16_384
"""Characters of an error body that are kept."""

MESSAGE_LIMIT = 500
"""Characters of a provider's message in our one line."""


def provider_error(failure: RequestFailure, provider: str, key: str) -> ProviderError:
    """``failure`` as our error. ``key`` is taken out of every text in it.

    An error of ours that stopped the request on its way out comes back as what it was: the SDKs take it for the
    connection's.
    """
    if isinstance(ours := root_of(failure), ProviderError):
        return ours
    match failure:
        case ModelAPIError():
            return api_error(failure, provider, key)
        case httpx2.TransportError():
            return connection_lost(provider, clean(root_text(failure), key))
        case UserError():
            return ProviderError(f"{provider}: the request cannot be sent: {one_line(clean(str(failure), key))}")
        case _:
            text = one_line(clean(str(failure), key))
            return ProviderError(f"{provider}: the reply could not be read: {text}", transient=True)


def api_error(failure: ModelAPIError, provider: str, key: str) -> ProviderError:
    """An error the provider reported, or the connection's."""
    if isinstance(failure, ModelConnectionError):
        timed_out = isinstance(failure, ModelTimeoutError)
        return connection_lost(provider, None if timed_out else clean(root_text(failure), key))
    status = failure.status_code if isinstance(failure, ModelHTTPError) else None
    code = first_name(failure.provider_error_code, failure.provider_error_type, code_in(failure.body))
    body = clean(body_text(failure.body), key)[:BODY_LIMIT]
    said = clean(message_in(failure.body) or failure.message, key)
    kind = ContextOverflow if is_overflow(status, code, said, body) else ProviderError
    return kind(
        f"{provider}: {' '.join(part for part in (str(status or ''), code or '') if part) or 'error'}: {one_line(said)}",
        status=status,
        code=code,
        retry_after_ms=None if failure.retry_after is None else round(failure.retry_after * 1000),
        body=body,
        transient=kind is ProviderError and is_transient(failure, status),
    )


def is_transient(failure: ModelAPIError, status: int | None) -> bool:
    """Whether the same request may succeed later."""
    match failure:
        case ModelQuotaExceededError():
            return False
        case ModelRateLimitError() | ModelUnavailableError() | ModelServerError() | ModelRequestTimeout():
            return True
        case ModelRequestRejectedError():
            return False
        case _:
            return status is None or status >= 500 or status in TRANSIENT_STATUSES


def connection_lost(provider: str, what: str | None) -> ProviderError:
    """A request that got no answer, or a stream that broke off; ``what`` is None when it took too long."""
    said = "the request timed out" if what is None else f"the connection failed: {one_line(what)}"
    return ProviderError(f"{provider}: {said}", transient=True)


def incomplete_reply(provider: str, why: str) -> ProviderError:
    """A stream that ended, without an error, before its reply was whole."""
    return ProviderError(f"{provider}: the reply is incomplete: {why}", transient=True)


def error_in_finish(response: ModelResponse, provider: str) -> ProviderError | None:
    """The error a finished stream stands for by its finish reason, None when there is none."""
    details = response.provider_details or {}
    raw = text_of_field(details, "finish_reason")
    if is_overflow(None, raw, ""):
        return ContextOverflow(f"{provider}: the reply reached the end of the model's context window", code=raw)
    match response.finish_reason:
        case "content_filter":
            why = text_of_field(details, "refusal") or "no reason given"
            return ProviderError(f"{provider}: the model refused: {one_line(why)}", code=raw or "content_filter")
        case "error":
            return ProviderError(f"{provider}: the reply failed", code=raw, transient=True)
        case None if raw is None:
            return incomplete_reply(provider, "the stream ended without a stop reason")
        case _:
            return None


def stopped_early(response: ModelResponse, provider: str) -> ProviderError:
    """A reply that its provider ended, whole as it is, where only a finished one is of use."""
    raw = text_of_field(response.provider_details or {}, "finish_reason")
    return ProviderError(f"{provider}: the reply was stopped early: {raw or response.finish_reason}", code=raw)


def root_text(failure: BaseException) -> str:
    """What the innermost cause says: the SDKs only say "Connection error."."""
    root = root_of(failure)
    return str(root) or type(root).__name__


def root_of(failure: BaseException) -> BaseException:
    """The innermost cause."""
    while failure.__cause__ is not None:
        failure = failure.__cause__
    return failure


def first_name(*codes: str | None) -> str | None:
    """The first code that is a name: some servers repeat the status as the code, and name the error in its type."""
    return next((code for code in codes if code and not code.isdigit()), None)


# --- texts ---------------------------------------------------------------------------------------


def clean(text: str, key: str) -> str:
    """``text`` without the key: a server may answer with what it was sent."""
    return text.replace(key, "[key]") if key else text


def one_line(text: str) -> str:
    """``text`` on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_LIMIT else line[:MESSAGE_LIMIT] + "…"


def body_text(body: JsonValue) -> str:
    """An error body as text: as it came where it was no JSON, else as the JSON that was read from it."""
    if body is None:
        return ""
    return body if type(body) is str else json.dumps(body, ensure_ascii=False, default=str)


def reported(body: JsonValue) -> JsonObject:
    """The object in an error body that reports the failure: most providers wrap it in ``error``."""
    fields = object_in(body)
    return object_in(fields.get("error")) or fields


def message_in(body: JsonValue) -> str | None:
    """The provider's own words in an error body."""
    if isinstance(body, str):
        return body
    return text_of_field(object_in(body), "error") or text_of_field(reported(body), "message")


def code_in(body: JsonValue) -> str | None:
    """The provider's code, or type, in an error body."""
    return first_name(text_of_field(reported(body), "code"), text_of_field(reported(body), "type"))
