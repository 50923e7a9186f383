"""Requests that fail: which are sent again, after how long, and what is stored and told of it."""

from pathlib import Path

import pytest

from coppice.agent.run import Options
from coppice.format.events import AutoRetryEnd, AutoRetryStart, MessageUpdate
from coppice.format.messages import AssistantMessage
from coppice.providers.scripted import call, drop, fail, overflow, say
from tests.agent.stage import Stage, lines, set_stage, stored, told

pytestmark = pytest.mark.anyio


def retries(stage: Stage) -> list[AutoRetryStart | AutoRetryEnd]:
    return [event for event in stage.heard if isinstance(event, AutoRetryStart | AutoRetryEnd)]


def last_reply(stage: Stage) -> AssistantMessage:
    message = stage.session.get_branch()[-1].message  # pyright: ignore[reportAttributeAccessIssue]  (a message entry)
    assert isinstance(message, AssistantMessage)
    return message


async def test_a_rate_limit_waits_as_long_as_the_provider_asks(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, fail("slow down", status=429, retry_after_ms=37), say("fine"))
    await stage.agent.prompt("hi")
    assert retries(stage) == [AutoRetryStart(1, 3, 37, "slow down"), AutoRetryEnd(True, 1)]
    assert stored(stage.session) == ["user: hi", "reply: fine [stop]"]
    assert len(stage.model.requests) == 2


async def test_overload_is_tried_again_with_growing_waits(tmp_path: Path) -> None:
    busy = fail("overloaded", status=529)
    stage = set_stage(tmp_path, busy, busy, busy, say("fine"), options=Options(3, 4, 50))
    await stage.agent.prompt("hi")
    starts = [event for event in retries(stage) if isinstance(event, AutoRetryStart)]
    assert [
        (start.attempt, base <= start.delay_ms <= base * 1.25) for start, base in zip(starts, (4, 8, 16), strict=True)
    ] == [
        (1, True),
        (2, True),
        (3, True),
    ]
    assert retries(stage)[-1] == AutoRetryEnd(True, 3)
    assert stored(stage.session) == ["user: hi", "reply: fine [stop]"]


async def test_a_connection_lost_in_the_text_leaves_what_came_as_a_failed_reply(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, drop("I was about to"), say("fine"))
    await stage.agent.prompt("hi")
    assert stored(stage.session) == ["user: hi", "reply: I was about to [error]", "reply: fine [stop]"]
    assert lines(stage.sent().messages) == ["user: hi"]
    shown = [name for name in told(stage.heard) if not name.startswith("text_")]
    assert shown[4:] == [
        "message_start assistant",
        "message_end assistant",
        "auto_retry_start",
        "message_start assistant",
        "message_end assistant",
        "auto_retry_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]


async def test_a_request_that_keeps_failing_is_given_up_with_the_reason(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, *[fail("overloaded", status=529)] * 5, options=Options(2, 1, 5))
    await stage.agent.prompt("hi")
    reply = last_reply(stage)
    assert (reply.stop_reason, reply.error_message, reply.content) == (
        "error",
        "gave up after 2 retries: overloaded",
        (),
    )
    assert retries(stage)[-1] == AutoRetryEnd(False, 2, "gave up after 2 retries: overloaded")
    assert len(stage.model.requests) == 3
    assert stored(stage.session) == ["user: hi", "reply:  [error]"]


async def test_who_asks_for_more_than_the_cap_is_not_waited_for(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, fail("slow down", status=429, retry_after_ms=3_600_000), say("never"))
    await stage.agent.prompt("hi")
    assert last_reply(stage).error_message == "the provider asks to wait 3600 s, longer than the 0 s allowed: slow down"
    assert (retries(stage), len(stage.model.requests)) == ([], 1)


@pytest.mark.case("P21")
@pytest.mark.parametrize(
    "failure",
    [fail("bad key", status=401), fail("no such model", status=404), overflow()],
    ids=["401", "404", "overflow"],
)
async def test_a_failure_that_will_not_pass_is_stored_and_not_tried_again(tmp_path: Path, failure: object) -> None:
    stage = set_stage(tmp_path, failure, say("never"))  # pyright: ignore[reportArgumentType]  (a reply)
    await stage.agent.prompt("hi")
    assert (len(stage.model.requests), retries(stage), stored(stage.session)) == (
        1,
        [],
        ["user: hi", "reply:  [error]"],
    )


async def test_with_retries_off_the_first_failure_counts(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, fail("busy", status=529), say("never"), options=Options(max_retries=0))
    await stage.agent.prompt("hi")
    assert (len(stage.model.requests), retries(stage)) == (1, [])


async def test_each_request_of_a_run_has_its_own_tries(tmp_path: Path) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    busy = fail("busy", status=503)
    stage = set_stage(
        tmp_path, busy, busy, call("look", id="c1"), busy, busy, say("fine"), tools=[look], options=Options(2, 1, 2)
    )
    await stage.agent.prompt("hi")
    assert stored(stage.session) == ["user: hi", "reply: look(c1) [toolUse]", "result c1: seen", "reply: fine [stop]"]
    assert [event.attempt for event in retries(stage)] == [1, 2, 2, 1, 2, 2]


async def test_steering_that_came_during_a_failed_try_waits_for_the_reply(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, drop("half"), say("one"), say("two"))
    queued: list[str] = []

    def queue(event: object) -> None:
        if isinstance(event, MessageUpdate) and not queued:
            queued.append(stage.agent.steer("left"))

    stage.agent.subscribe(queue)
    await stage.agent.prompt("hi")
    assert stored(stage.session) == [
        "user: hi",
        "reply: half [error]",
        "reply: one [stop]",
        "user: left",
        "reply: two [stop]",
    ]
