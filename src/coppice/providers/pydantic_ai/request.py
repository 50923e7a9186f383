"""Our request as pydantic-ai's messages and parameters.

What is left out of a history (aborted replies, another provider's signatures, calls without results) was decided by
`coppice.tree.pairing`; here each message is only translated. Images are sent as bytes, never as URLs.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from typing import assert_never

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from coppice.format.messages import (
    AssistantMessage,
    Content,
    ImageBlock,
    OpaqueMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UnknownBlock,
    UserBlock,
    UserMessage,
)
from coppice.providers.base import ModelInfo, Request, ToolSchema
from coppice.providers.pydantic_ai.replay import (
    ANTHROPIC_MESSAGES,
    OPENAI_COMPLETIONS,
    OPENAI_RESPONSES,
    call_extras,
    text_part,
    thinking_parts,
)
from coppice.providers.pydantic_ai.wellformed import well_formed, well_formed_json

NO_TEXT = "(no text)"
"""Sent for a user message without content: Anthropic refuses blank texts, and leaving it out would move the turns."""

NO_OUTPUT = "(no output)"
"""Sent for a tool result without content, for the same reason."""

UNREADABLE_IMAGE = "(an image that could not be read)"

PICTURES_OF = "Pictures in the result of"
SEE_PICTURES = "(see the pictures after the results)"

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider takes as a tool call's id (Anthropic: these characters; OpenAI: at most 64 of them)."""


def parameters_of(request: Request) -> ModelRequestParameters:
    """System prompt and tools; schemas go out as they are, never tightened to a provider's strict subset."""
    prompt = well_formed(request.system_prompt)
    return ModelRequestParameters(
        function_tools=[tool_definition(tool) for tool in request.tools],
        instruction_parts=[InstructionPart(content=prompt)] if prompt else [],
    )


def tool_definition(tool: ToolSchema) -> ToolDefinition:
    """A tool as pydantic-ai's."""
    return ToolDefinition(
        name=tool.name,
        description=well_formed(tool.description),
        parameters_json_schema=well_formed_json(tool.parameters),
        strict=False,
    )


def messages_of(request: Request, info: ModelInfo, system: str, marks: Iterable[str] = ()) -> list[ModelMessage]:
    """The history, in order; neighbouring user messages and tool results share one pydantic-ai request.

    ``system`` is pydantic-ai's name for the provider: what a reply of this provider carried goes back under it.
    ``marks`` stand in for the opaque items, each in a message of its own (see `opaque`).
    """
    history: list[ModelMessage] = []
    asked = Asked(info.api)
    mark = iter(marks)
    for message in request.messages:
        match message:
            case UserMessage(content=content):
                asked.add_user(content)
            case ToolResultMessage():
                asked.add_result(message)
            case AssistantMessage():
                history.extend(asked.taken())
                history.append(reply_of(message, info, system))
            case OpaqueMessage():
                history.extend(asked.taken())
                history.append(ModelRequest([UserPromptPart(next(mark))]))
            case _:
                assert_never(message)
    history.extend(asked.taken())
    return history


class Asked:
    """What stands between two replies: tool results first, what their pictures show, then the user's words."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._parts: list[UserPromptPart | ToolReturnPart] = []
        self._pictures: list[UserContent] = []

    def add_user(self, content: Content) -> None:
        self._show_pictures()
        self._parts.append(UserPromptPart(user_content(content)))

    def add_result(self, result: ToolResultMessage) -> None:
        """Chat Completions takes only text in a result: there its pictures follow the turn's results."""
        parts = [part for block in result.content if (part := content_part(block))]
        text = "\n".join(part for part in parts if isinstance(part, str))
        pictures = [part for part in parts if not isinstance(part, str)]
        if pictures and self._api == OPENAI_COMPLETIONS:
            self._pictures += [f"{PICTURES_OF} {result.tool_name}:", *pictures]
            text, pictures = text or SEE_PICTURES, []
        self._parts.append(tool_return(result, self._api, parts if pictures else text or NO_OUTPUT))

    def taken(self) -> list[ModelMessage]:
        """Everything added since the last time."""
        self._show_pictures()
        parts, self._parts = self._parts, []
        return [ModelRequest(parts)] if parts else []

    def _show_pictures(self) -> None:
        if self._pictures:
            self._parts.append(UserPromptPart(self._pictures))
            self._pictures = []


def user_content(content: Content) -> str | list[UserContent]:
    """The content of a user message, as one text where it is one: small servers take no list."""
    if isinstance(content, str):
        content = (TextBlock(content),)
    parts: list[UserContent] = [part for block in content if (part := content_part(block))]
    match parts:
        case []:
            return NO_TEXT
        case [str() as text]:
            return text
        case _:
            return parts


def content_part(block: UserBlock) -> str | BinaryContent:
    """A block as text or bytes; empty for one that is not sent: an unknown one, a blank text."""
    match block:
        case TextBlock(text=text):
            return well_formed(text) if text.strip() else ""
        case ImageBlock(data=data, mime_type=mime_type):
            picture = image_bytes(data)
            return BinaryContent(picture, media_type=mime_type) if picture else UNREADABLE_IMAGE
        case UnknownBlock():
            return ""
        case _:
            assert_never(block)


def image_bytes(data: str) -> bytes:
    """The bytes of base64 text; none when it is not that."""
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except ValueError:
        return b""


def tool_return(result: ToolResultMessage, api: str, content: str | list[str | BinaryContent]) -> ToolReturnPart:
    """Only Anthropic has a field for a failed call; elsewhere the text alone says it, unwrapped."""
    return ToolReturnPart(
        tool_name=result.tool_name,
        content=content,
        tool_call_id=wire_id(result.tool_call_id, api),
        outcome="failed" if result.is_error and api == ANTHROPIC_MESSAGES else "success",
    )


def reply_of(message: AssistantMessage, info: ModelInfo, system: str) -> ModelResponse:
    """A stored reply. What only its own provider understands is sent to that provider's same API alone.

    Thinking at its end (the reply was cut there) is left out, as blank texts are: providers refuse both.
    """
    own = message.provider == info.provider and message.api == info.api
    parts: list[ModelResponsePart] = []
    for block in message.content:
        match block:
            case TextBlock(text=text) if not text.strip():
                pass
            case TextBlock():
                parts.append(text_part(info.api, block if own else TextBlock(block.text), system))
            case ThinkingBlock():
                parts.extend(thinking_parts(info.api, block, system) if own else [])
            case ToolCall():
                parts.append(tool_call_part(block, info.api, system if own else None))
            case UnknownBlock():
                pass
            case _:
                assert_never(block)
    while parts and isinstance(parts[-1], ThinkingPart):
        parts.pop()
    return ModelResponse(
        parts=parts,
        model_name=message.model or None,
        provider_name=system if own else None,
        provider_response_id=message.response_id if own else None,
    )


def tool_call_part(call: ToolCall, api: str, system: str | None) -> ToolCallPart:
    """A stored call as pydantic-ai's; ``system`` is None for another provider's."""
    item_id, details = call_extras(call) if system else (None, None)
    return ToolCallPart(
        tool_name=call.name,
        args=well_formed_json(call.arguments),
        tool_call_id=wire_id(call.id, api),
        id=item_id,
        provider_name=system if item_id or details else None,
        provider_details=details,
    )


def wire_id(call_id: str, api: str) -> str:
    """A tool call's id as the provider takes it: its own ids as they are, others' changed where they would be refused.

    ``call_…|fc_…`` is how Pi writes a call of OpenAI Responses; pydantic-ai takes it apart again.
    """
    if CALL_ID.fullmatch(call_id) or (
        api == OPENAI_RESPONSES and all(CALL_ID.fullmatch(half) for half in call_id.split("|", 1))
    ):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', call_id)[:40]}_{digest}"
