"""A streamed reply of pydantic-ai as our stream events and, at the end, our message.

A block's ``content_index`` is its place in the order the blocks began, which is their order in the message.
"""

import json
from collections.abc import Iterator

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from coppice.format.events import (
    BlockEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from coppice.format.messages import AssistantBlock, JsonObject, ToolCall, ToolCallId
from coppice.providers.pydantic_ai.replay import call_signature, text_block, thinking_block
from coppice.providers.pydantic_ai.wellformed import well_formed_json, whole_characters

BlockPart = TextPart | ThinkingPart | ToolCallPart
"""The parts that are blocks of ours. Others belong to tools a provider runs itself, which are never asked for."""


class ReplyStream:
    """Turns part events into block events; remembers which blocks began, which ended and half a character each."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._begun: list[int] = []
        self._ended: set[int] = set()
        self._halves: dict[int, str] = {}

    def events(self, event: ModelResponseStreamEvent) -> Iterator[BlockEvent]:
        """What one event of pydantic-ai means in ours."""
        match event:
            case PartStartEvent(index=index, part=TextPart() | ThinkingPart() | ToolCallPart() as part):
                if index not in self._begun:
                    yield from self._start(index, part)
            case PartDeltaEvent(index=index, delta=delta) if index in self._begun and index not in self._ended:
                match delta:
                    case TextPartDelta(content_delta=text):
                        yield from self._text(index, text)
                    case ThinkingPartDelta(content_delta=text):
                        yield from self._thinking(index, text or "")
                    case ToolCallPartDelta(args_delta=arguments):
                        yield from self._arguments(index, arguments)
                    case _:
                        return
            case PartEndEvent(index=index, part=TextPart() | ThinkingPart() | ToolCallPart() as part):
                if is_whole(part):
                    yield from self._end(index, part)
            case _:
                return

    def rest(self, response: ModelResponse) -> Iterator[BlockEvent]:
        """The ends of the blocks that have not ended yet, when the stream is over."""
        for index, part in zip(sorted(self._begun), block_parts(response), strict=True):
            yield from self._end(index, part)

    def content(self, response: ModelResponse) -> tuple[AssistantBlock, ...]:
        """The reply's blocks, in the order they began."""
        parts = dict(zip(sorted(self._begun), block_parts(response), strict=True))
        return tuple(block_of(self._api, parts[index]) for index in self._begun)

    def _start(self, index: int, part: BlockPart) -> Iterator[BlockEvent]:
        place = len(self._begun)
        self._begun.append(index)
        match part:
            case TextPart(content=text):
                yield TextStart(place)
                yield from self._text(index, text)
            case ThinkingPart(content=text):
                yield ThinkingStart(place)
                yield from self._thinking(index, text)
            case ToolCallPart(args=arguments):
                yield ToolCallStart(place, ToolCallId(part.tool_call_id), part.tool_name)
                yield from self._arguments(index, arguments)

    def _text(self, index: int, text: str) -> Iterator[BlockEvent]:
        if delta := self._whole(index, text):
            yield TextDelta(self._begun.index(index), delta)

    def _thinking(self, index: int, text: str) -> Iterator[BlockEvent]:
        if delta := self._whole(index, text):
            yield ThinkingDelta(self._begun.index(index), delta)

    def _arguments(self, index: int, arguments: str | JsonObject | None) -> Iterator[BlockEvent]:
        text = json.dumps(arguments, ensure_ascii=False) if type(arguments) is dict else str(arguments or "")
        if delta := self._whole(index, text):
            yield ToolCallDelta(self._begun.index(index), delta)

    def _whole(self, index: int, text: str) -> str:
        delta, self._halves[index] = whole_characters(self._halves.get(index, "") + text)
        return delta

    def _end(self, index: int, part: BlockPart) -> Iterator[BlockEvent]:
        if index in self._ended or index not in self._begun:
            return
        self._ended.add(index)
        place = self._begun.index(index)
        match part:
            case TextPart():
                yield TextEnd(place, text_block(self._api, part).text)
            case ThinkingPart():
                yield ThinkingEnd(place, thinking_block(self._api, part).thinking)
            case ToolCallPart():
                yield ToolCallEnd(place, tool_call(part))


def block_parts(response: ModelResponse) -> list[BlockPart]:
    """A reply's parts that are blocks of ours."""
    return [part for part in response.parts if isinstance(part, TextPart | ThinkingPart | ToolCallPart)]


def block_of(api: str, part: BlockPart) -> AssistantBlock:
    """A finished part as our block."""
    match part:
        case TextPart():
            return text_block(api, part)
        case ThinkingPart():
            return thinking_block(api, part)
        case ToolCallPart():
            return tool_call(part)


def tool_call(part: ToolCallPart) -> ToolCall:
    """A tool call; arguments that are broken become empty (`is_broken` says so, and the reply is then never `toolUse`)."""
    return ToolCall(
        id=ToolCallId(part.tool_call_id),
        name=part.tool_name,
        arguments=arguments_of(part) or {},
        thought_signature=call_signature(part),
    )


def is_whole(part: BlockPart) -> bool:
    """Whether nothing can follow. A call without arguments so far may get them between the pieces of another call."""
    return not isinstance(part, ToolCallPart) or bool(part.args and arguments_of(part) is not None)


def is_broken(part: BlockPart) -> bool:
    """Whether this is a tool call whose arguments are no JSON object: cut off, or never whole."""
    return isinstance(part, ToolCallPart) and arguments_of(part) is None


def arguments_of(part: ToolCallPart) -> JsonObject | None:
    """The arguments, None when they are no JSON object. No text at all means no arguments."""
    if type(part.args) is dict:
        return well_formed_json(part.args)
    text = str(part.args or "")
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None
    return well_formed_json(value) if type(value) is dict else None


def refuse_constant(name: str) -> None:
    """NaN and Infinity are no JSON."""
    raise ValueError(name)
