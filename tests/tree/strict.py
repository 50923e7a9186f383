"""A strict checker of what a provider is sent (cases P12, P16, P17), written from the page and not from the code."""

from collections.abc import Sequence

from coppice.format.messages import AssistantMessage, RequestMessage, ToolCall, ToolResultMessage, UserMessage


def violations(sent: Sequence[RequestMessage]) -> list[str]:
    """What a strict provider would refuse: each call has one result, directly after its reply, in call order."""
    found: list[str] = []
    waiting: list[str] = []
    for position, message in enumerate(sent):
        match message:
            case ToolResultMessage():
                if not waiting or waiting[0] != message.tool_call_id:
                    found.append(f"{position}: the result of {message.tool_call_id} where {waiting[:1]} was due")
                else:
                    waiting.pop(0)
            case AssistantMessage():
                if waiting:
                    found.append(f"{position}: a reply while {waiting} have no result")
                if message.stop_reason in ("error", "aborted") or not message.content:
                    found.append(f"{position}: a reply that must not be sent")
                waiting = [str(block.id) for block in message.content if isinstance(block, ToolCall)]
            case UserMessage():
                if waiting:
                    found.append(f"{position}: a user message while {waiting} have no result")
    return found + ([f"the end: {waiting} have no result"] if waiting else [])
