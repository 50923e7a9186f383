"""How long to wait before a failed request is sent again, or why it is not.

Pure: no clock, no randomness; who waits is the agent loop. Whether an error is worth another try is the error's own
word (`ProviderError.transient`).
"""

from dataclasses import dataclass
from typing import TypeAlias

from coppice.errors import ProviderError

MAX_ATTEMPTS = 3
"""Retries of one request before its error counts. Pi's default too (its settings, ``retry.maxRetries``)."""

BASE_MS = 2_000
"""Milliseconds before the first retry; each further one waits twice as long."""

CAP_MS = 60_000
"""The longest wait in milliseconds: who is asked to wait longer is told so instead of left in front of a still screen."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Send the request again after ``delay_ms`` milliseconds."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not send it again; ``reason`` is a line for people."""

    reason: str


Verdict: TypeAlias = Wait | GiveUp


def retry_delay_ms(
    attempt: int,
    retry_after_ms: int | None,
    *,
    base_ms: int = BASE_MS,
    cap_ms: int = CAP_MS,
    jitter: float = 0.0,
) -> int | None:
    """Milliseconds to wait before retry number ``attempt`` (the first is 1); None when the provider asks for too long.

    The wait doubles with each attempt up to ``cap_ms``. What the provider asked for is a lower bound, and None is
    returned where it asks for more than ``cap_ms``. ``jitter``, from 0 to 1, is the part of the wait that is added on
    top, so that many clients do not come back at once: pass a random number, or nothing.
    """
    if retry_after_ms is not None and retry_after_ms > cap_ms:
        return None
    backoff = min(base_ms * 2 ** (max(attempt, 1) - 1), cap_ms)
    spread = round(backoff * min(max(jitter, 0.0), 1.0))
    return max(min(backoff + spread, cap_ms), retry_after_ms or 0)


def next_try(
    error: ProviderError,
    attempt: int,
    *,
    max_attempts: int = MAX_ATTEMPTS,
    base_ms: int = BASE_MS,
    cap_ms: int = CAP_MS,
    jitter: float = 0.0,
) -> Verdict:
    """What to do about ``error`` before retry number ``attempt`` (the first is 1)."""
    if not error.transient:
        return GiveUp(str(error))
    if attempt > max_attempts:
        return GiveUp(f"gave up after {max_attempts} retries: {error}")
    delay = retry_delay_ms(attempt, error.retry_after_ms, base_ms=base_ms, cap_ms=cap_ms, jitter=jitter)
    if delay is None:
        seconds = round((error.retry_after_ms or 0) / 1000)
        return GiveUp(f"the provider asks to wait {seconds} s, longer than the {cap_ms // 1000} s allowed: {error}")
    return Wait(delay)
