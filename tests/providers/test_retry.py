"""When a failed request is sent again."""

import pytest

from coppice.errors import ProviderError
from coppice.providers.retry import GiveUp, Wait, next_try, retry_delay_ms


@pytest.mark.parametrize(
    ("attempt", "retry_after_ms", "delay"),
    [
        (1, None, 2_000),
        (2, None, 4_000),
        (3, None, 8_000),
        (6, None, 60_000),
        (1_000, None, 60_000),
        (1, 500, 2_000),
        (1, 7_000, 7_000),
        (1, 60_000, 60_000),
        (1, 60_001, None),
        (0, 0, 2_000),
    ],
)
def test_the_wait_doubles_and_is_never_shorter_than_the_provider_asks(
    attempt: int, retry_after_ms: int | None, delay: int | None
) -> None:
    assert retry_delay_ms(attempt, retry_after_ms) == delay


def test_jitter_lengthens_the_wait_within_the_cap() -> None:
    waits = [retry_delay_ms(2, None, jitter=jitter) for jitter in (0.0, 0.25, 1.0, 7.0)]
    assert waits == [4_000, 5_000, 8_000, 8_000]
    assert retry_delay_ms(6, None, jitter=1.0) == 60_000


def test_a_transient_error_is_tried_again_until_the_attempts_are_used_up() -> None:
    error = ProviderError("anthropic: 529 overloaded_error: Overloaded", status=529, transient=True)
    assert [next_try(error, attempt, max_attempts=2) for attempt in (1, 2, 3)] == [
        Wait(2_000),
        Wait(4_000),
        GiveUp("gave up after 2 retries: anthropic: 529 overloaded_error: Overloaded"),
    ]


def test_an_error_that_will_not_pass_is_not_tried_again() -> None:
    error = ProviderError("openai: 401 invalid_api_key: no", status=401)
    assert next_try(error, 1) == GiveUp("openai: 401 invalid_api_key: no")


def test_a_provider_that_asks_for_too_long_a_wait_is_not_waited_for() -> None:
    error = ProviderError("openai: 429: later", status=429, retry_after_ms=3_600_000, transient=True)
    assert next_try(error, 1) == GiveUp(
        "the provider asks to wait 3600 s, longer than the 60 s allowed: openai: 429: later"
    )
