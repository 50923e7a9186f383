"""Is an error the provider's way of saying that the request is larger than the model's context window?

Pure. The status and the code decide first, then the wordings that servers are known to use. What to do about an
overflow is not decided here.
"""

import re

OVERFLOW_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Groq, Together and most that copy OpenAI's errors
        "exceed_context_size_error",  # llama.cpp's server, which sends it as the error's type
        "model_context_window_exceeded",  # Anthropic's stop reason; some gateways send it as an error's type
        "context_window_exceeded",
    }
)
"""Error codes, error types and stop reasons that mean an overflow, whatever the text beside them says."""

NEVER_OVERFLOW_STATUSES = frozenset({401, 402, 403, 404, 408, 429, 529})
"""HTTP statuses with another meaning: key, payment, permission, unknown model, time-out, rate, load."""

NEVER_OVERFLOW_CODES = frozenset({"request_too_large"})
"""Anthropic's 413 counts bytes, mostly of attachments: it does not follow that fewer tokens would do."""

OVERFLOW_WORDINGS = re.compile(
    r"prompt is too long"  # Anthropic
    r"|prompt too long; exceeded"  # Ollama
    r"|exceeded max context length"  # Ollama
    r"|exceeds? the available context size"  # llama.cpp
    r"|maximum context length (?:is|of)\b"  # OpenAI, vLLM, OpenRouter, SGLang
    r"|exceeds? the (?:model'?s )?(?:maximum )?context (?:window|length)"  # OpenAI Responses, LM Studio
    r"|input is too long for requested model"  # Bedrock
    r"|input length and `?max_tokens`? exceed context limit"  # Anthropic before Claude 4.5
    r"|input token count .{0,40}exceeds the maximum number of tokens"  # Gemini
    r"|maximum prompt length is \d+"  # xAI
    r"|reduce the length of the messages"  # Groq
    r"|exceeds the limit of \d+ tokens"  # GitHub Copilot
    r"|greater than the context length",  # LM Studio
    re.IGNORECASE,
)
"""Wordings of an overflow where no code says it."""


def is_overflow(status: int | None, code: str | None, message: str, body: str = "") -> bool:
    """Whether this failure means that the request does not fit the model's context window.

    ``status`` is the HTTP status (None when there was none), ``code`` the provider's code, type or stop reason,
    ``message`` its text, ``body`` the raw error body, where a proxy's own message hides the provider's.
    """
    if code in OVERFLOW_CODES:
        return True
    if code in NEVER_OVERFLOW_CODES or status in NEVER_OVERFLOW_STATUSES:
        return False
    return OVERFLOW_WORDINGS.search(message) is not None or OVERFLOW_WORDINGS.search(body) is not None
