"""A strict checker of what a provider is sent: as strict as the strictest of them. Tests of every floor use it."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from coppice.format.messages import AssistantMessage, RequestMessage, ToolResultMessage, UserMessage, tool_calls_of


def faults_of(messages: Sequence[RequestMessage]) -> list[str]:
    """What is wrong with a request's messages; empty when a strict provider takes them.

    It begins with a user message, no reply is empty, each call has exactly one result, the results stand directly after
    their turn and in call order, no result is without its call, and everything can be encoded as UTF-8.
    """
    faults = [] if messages and isinstance(messages[0], UserMessage) else ["it does not begin with a user message"]
    for at, message in enumerate(messages):
        try:
            msgspec.json.encode(message)
        except UnicodeEncodeError:
            faults.append(f"message {at} cannot be encoded as UTF-8")
        match message:
            case AssistantMessage():
                faults += _faults_of_turn(at, message, messages[at + 1 :])
            case ToolResultMessage() if not _follows_a_turn(messages[:at]):
                faults.append(f"message {at}, the result of {message.tool_call_id}, follows no reply with calls")
            case _:
                pass
    return faults


def _faults_of_turn(at: int, reply: AssistantMessage, after: Sequence[RequestMessage]) -> list[str]:
    if not reply.content:
        return [f"message {at} is an empty reply"]
    asked = [call.id for call in tool_calls_of(reply)]
    results = takewhile(lambda message: isinstance(message, ToolResultMessage), after)
    given = [result.tool_call_id for result in results if isinstance(result, ToolResultMessage)]
    return [] if asked == given else [f"message {at} calls {asked} and is given results for {given}"]


def _follows_a_turn(before: Sequence[RequestMessage]) -> bool:
    for message in reversed(before):
        match message:
            case AssistantMessage():
                return bool(tool_calls_of(message))
            case ToolResultMessage():
                continue
            case _:
                return False
    return False
