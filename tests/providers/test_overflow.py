"""Overflow or not: status and code first, then the wordings."""

import pytest

from coppice.providers.overflow import is_overflow

OVERFLOWS = [
    (400, None, "prompt too long; exceeded max context length by 918 tokens"),
    (400, "invalid_request_error", "request (66202 tokens) exceeds the available context size (65536 tokens)"),
    (400, "context_length_exceeded", "anything at all"),
    (200, "context_length_exceeded", ""),
    (400, "exceed_context_size_error", ""),
    (None, "model_context_window_exceeded", ""),
    (
        400,
        None,
        "This model's maximum context length is 8192 tokens. However, you requested 0 output tokens and your prompt "
        "contains at least 8193 input tokens",
    ),
    (503, None, "upstream said: input exceeds the model's maximum context length of 131072 tokens"),
    (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    (413, "invalid_request_error", "Prompt is too long"),
    (400, None, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, None, "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"),
    (400, None, "Please reduce the length of the messages or completion."),
]

OTHERS = [
    (429, None, ""),
    (429, "rate_limit_error", "This request would exceed your organization's rate limit of 30,000 input tokens"),
    (529, "overloaded_error", "Overloaded"),
    (413, None, ""),
    (413, "request_too_large", "Request exceeds the maximum size"),
    (413, "request_too_large", "the prompt is too long: an attachment has 40 MB"),
    (400, "invalid_request_error", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
    (400, None, "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens"),
    (401, "invalid_api_key", "maximum context length is 8192 tokens"),
    (500, None, "Internal server error"),
    (None, None, ""),
]


@pytest.mark.parametrize(("status", "code", "message"), OVERFLOWS)
def test_this_is_an_overflow(status: int | None, code: str | None, message: str) -> None:
    assert is_overflow(status, code, message)


@pytest.mark.parametrize(("status", "code", "message"), OTHERS)
def test_this_is_no_overflow(status: int | None, code: str | None, message: str) -> None:
    assert not is_overflow(status, code, message)


def test_a_proxys_own_message_does_not_hide_the_overflow_in_the_body() -> None:
    assert is_overflow(500, None, "upstream error", '{"detail": "maximum context length is 8192 tokens"}')
