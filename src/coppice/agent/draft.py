"""The reply being streamed: what has come so far, for a reply that is cut off. The only copy, gone when it is stored."""

from typing import assert_never

from coppice.format.events import (
    StreamDone,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageReport,
)
from coppice.format.messages import (
    NO_USAGE,
    AssistantBlock,
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)
from coppice.providers.base import ModelInfo


class ReplyDraft:
    """Takes stream events in and gives the message they amount to. Text grows in pieces, joined when asked for."""

    __slots__ = ("_blocks", "_info", "_level", "_pieces", "usage")

    def __init__(self, info: ModelInfo, thinking_level: str) -> None:
        self._info = info
        self._level = thinking_level
        self._blocks: dict[int, AssistantBlock] = {}
        self._pieces: dict[int, list[str]] = {}
        self.usage: Usage = NO_USAGE

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come yet."""
        return not self._blocks

    def take(self, event: StreamEvent) -> None:
        """Take in the next event."""
        match event:
            case TextStart(content_index=at):
                self._blocks[at], self._pieces[at] = TextBlock(""), []
            case ThinkingStart(content_index=at):
                self._blocks[at], self._pieces[at] = ThinkingBlock(""), []
            case ToolCallStart(content_index=at):
                self._blocks[at], self._pieces[at] = ToolCall(event.id, event.tool_name, {}), []
            case TextDelta(content_index=at) | ThinkingDelta(content_index=at) | ToolCallDelta(content_index=at):
                self._pieces[at].append(event.delta)
            case TextEnd(content_index=at) | ThinkingEnd(content_index=at):
                self._pieces[at] = [event.content]
            case ToolCallEnd(content_index=at):
                self._blocks[at] = event.tool_call
            case UsageReport():
                self.usage = event.usage
            case StreamDone():
                pass
            case _:
                assert_never(event)

    def message(self, stop_reason: str, timestamp: int, error_message: str | None = None) -> AssistantMessage:
        """The reply as far as it came. A call whose arguments are not complete has none."""
        return AssistantMessage(
            content=tuple(self._block(at) for at in sorted(self._blocks)),
            api=self._info.api,
            provider=self._info.provider,
            model=self._info.id,
            usage=self.usage,
            stop_reason=stop_reason,
            error_message=error_message,
            thinking_level=self._level,
            timestamp=timestamp,
        )

    def _block(self, at: int) -> AssistantBlock:
        text = "".join(self._pieces[at])
        match self._blocks[at]:
            case TextBlock():
                return TextBlock(text)
            case ThinkingBlock():
                return ThinkingBlock(text)
            case block:
                return block
