"""How many tokens a text, an image, a message or a request is about, before a provider has counted it. Pure.

The estimate is for no model in particular: `coppice.compaction.corrections` learns what a model's own count is to it.
Here: the weights and what a message is made of. Not here: measuring characters (`coppice.compaction.characters`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from coppice.compaction.characters import measures
from coppice.format.codec import encode
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    JsonObject,
    JsonValue,
    Message,
    OpaqueMessage,
    RequestMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
    is_object,
)
from coppice.providers.base import ToolSchema
from coppice.tree.pairing import BRANCH_OPENING, COMPACTION_OPENING, SUMMARY_CLOSING, bash_text

IMAGE_TOKENS: Final = 1_600
"""Tokens of an image, whatever its bytes. Providers count pixels: Anthropic's documentation gives width x height / 750
and scales images down to about 1,600 tokens; Codex takes 7,373 bytes, or 1,844 tokens (openai/codex PR 12717)."""

ENCRYPTED_OVERHEAD: Final = 650
"""Bytes of an encrypted payload that hold no text (openai/codex, history.rs)."""

ENCRYPTED_BYTES_PER_TOKEN: Final = 4
"""Bytes of text in an encrypted payload for a token (openai/codex, history.rs)."""

MESSAGE_TOKENS: Final = 4
"""Tokens around a message: its role and the marks that open and close it (OpenAI's cookbook counts 3 to 4)."""

CALL_TOKENS: Final = 8
"""Tokens around a tool call, a tool result or a tool's schema: what marks it as one (ours; it differs by provider)."""

_NOT_SENT: Final = ("error", "aborted")
"""Stop reasons of replies that no request holds (`coppice.tree.pairing`)."""

WEIGHTS: Final[Mapping[str, float]] = {
    "lower run 1": 0.399,
    "lower run 2": 0.086,
    "lower run 6": 0.032,
    "lower run 8": 0.392,
    "lower run 9": 1.058,
    "lower run 12": 0.135,
    "lower run 14": 0.93,
    "upper run 2": 0.459,
    "upper run 3": 0.05,
    "upper run 4": 0.376,
    "letter run 1": 0.307,
    "mark run 1": 0.092,
    "mark run 3": 0.714,
    "mark run 4": 0.781,
    "mark run 6": 1.704,
    "blank run 2": 0.053,
    "blank run 9": 0.679,
    "newline run 1": 0.656,
    "newline run 2": 0.233,
    "each dot": 0.021,
    "each opening": 0.198,
    "upper lower": 0.116,
    "lower upper": 0.861,
    "lower digit": 0.207,
    "upper digit": 0.615,
    "digit lower": 0.779,
    "digit upper": 1.616,
    "blank digit": 1.659,
    "blank upper": 0.55,
    "word newline": 0.418,
    "newline letter": 0.251,
    "dot digit": 0.152,
    "underscore digit": 4.263,
    "quote lower": 0.147,
    "quote upper": 0.828,
    "quote newline": 1.583,
    "opening upper": 0.67,
    "opening digit": 1.421,
    "equals upper": 1.502,
    "equals digit": 0.616,
    "equals newline": 0.083,
    "slash lower": 0.898,
    "slash upper": 0.907,
    "slash digit": 1.377,
    "sign lower": 0.639,
    "sign upper": 1.3,
    "sign digit": 2.808,
    "sign newline": 1.079,
    "blank dot": 1.671,
    "word dot": 0.368,
    "blank underscore": 1.404,
    "blank quote": 1.623,
    "word quote": 0.141,
    "blank opening": 1.548,
    "word opening": 1.38,
    "word closing": 0.116,
    "blank equals": 1.088,
    "blank slash": 1.252,
    "blank sign": 1.092,
    "sign sign": 0.758,
    "digits": 0.576,
    "each dash": 0.61,
    "each latin_sign": 1.429,
    "western run 1": 0.216,
    "latin run 1": 1.88,
    "greek run 5": 2.51,
    "greek run 8": 0.644,
    "each greek": 0.131,
    "han run 1": 0.114,
    "han run 2": 0.323,
    "han run 3": 0.246,
    "han run 4": 0.783,
    "east_sign run 1": 0.268,
    "each han": 0.531,
    "each wide": 0.8,
    "each east_sign": 0.604,
    "han newline": 0.09,
    "traditional": 2.754,
    "hiragana run 1": 0.611,
    "hiragana run 4": 2.473,
    "katakana run 1": 1.187,
    "katakana run 4": 1.8,
    "katakana run 6": 2.998,
    "each kana": 0.628,
    "katakana newline": 0.652,
    "hangul run 1": 0.689,
    "hangul run 2": 0.663,
    "hangul run 3": 0.297,
    "hangul run 4": 0.136,
    "each hangul": 0.175,
    "hangul newline": 0.807,
    "devanagari run 1": 0.435,
    "devanagari run 3": 0.301,
    "devanagari run 5": 0.937,
    "devanagari run 7": 2.215,
    "each devanagari": 0.067,
    "devanagari newline": 1.212,
    "cyrillic run 1": 0.615,
    "cyrillic run 3": 0.232,
    "cyrillic run 5": 0.439,
    "cyrillic run 7": 0.42,
    "cyrillic run 9": 0.399,
    "cyrillic run 12": 1.218,
    "each cyrillic": 0.025,
    "cyrillic newline": 1.224,
    "arabic run 1": 0.384,
    "arabic run 3": 0.669,
    "arabic run 7": 0.935,
    "each arabic": 0.105,
    "arabic newline": 0.789,
    "thai run 1": 0.57,
    "each thai": 0.372,
    "hebrew run 1": 0.509,
    "hebrew run 4": 1.109,
    "each hebrew": 0.192,
    "each ukrainian": 1.707,
    "persian run 1": 0.201,
}
"""Measure of `coppice.compaction.characters` -> tokens for each. None is negative: more text is never fewer tokens.

Fitted by ``python -m benchmarks.fit_tokens`` against o200k_base on catalogues of free software in 19 languages, source
code, prose, JSON, base64, logs; ``benchmarks/token_error.py`` has the error on other texts."""


def estimate_text(text: str) -> int:
    """Tokens of a text; 0 for none, else at least 1. It never falls when text is appended."""
    if not text:
        return 0
    return max(1, round(sum(WEIGHTS.get(name, 0.0) * amount for name, amount in measures(text).items())))


def estimate_image(_: ImageBlock) -> int:
    """Tokens of an image: `IMAGE_TOKENS`, however large its base64 is."""
    return IMAGE_TOKENS


def estimate_encrypted(length_of_base64: int) -> int:
    """Tokens of an encrypted payload, by the length of its base64 in characters."""
    return int(max(0.0, (length_of_base64 * 3 / 4 - ENCRYPTED_OVERHEAD) / ENCRYPTED_BYTES_PER_TOKEN))


def estimate_message(message: Message | RequestMessage) -> int:
    """Tokens a message adds to a request; 0 for what no request holds."""
    match message:
        case UserMessage(content=content) | CustomMessage(content=content):
            tokens = estimate_text(content) if isinstance(content, str) else _blocks(content)
        case AssistantMessage():
            tokens = 0 if message.stop_reason in _NOT_SENT else _blocks(message.content)
        case ToolResultMessage():
            tokens = CALL_TOKENS + _blocks(message.content)
        case BashExecutionMessage():
            tokens = 0 if message.exclude_from_context else estimate_text(bash_text(message))
        case BranchSummaryMessage():
            tokens = estimate_text(BRANCH_OPENING + message.summary + SUMMARY_CLOSING)
        case CompactionSummaryMessage():
            tokens = estimate_text(COMPACTION_OPENING + message.summary + SUMMARY_CLOSING)
        case OpaqueMessage():
            tokens = _opaque(message.item)
        case SystemMessage() | UnknownMessage():
            tokens = 0
        case _:
            assert_never(message)
    return tokens + MESSAGE_TOKENS if tokens else 0


def estimate_request(
    system_prompt: str, messages: Iterable[Message | RequestMessage], tools: Sequence[ToolSchema] = ()
) -> int:
    """Tokens of everything a request holds."""
    tokens = estimate_text(system_prompt) + sum(map(estimate_message, messages))
    return tokens + sum(CALL_TOKENS + estimate_text(_tool_text(tool)) for tool in tools)


def _tool_text(tool: ToolSchema) -> str:
    return f"{tool.name}\n{tool.description}\n{_json(tool.parameters)}"


def _blocks(blocks: Sequence[Block]) -> int:
    return sum(map(_block, blocks))


def _block(block: Block) -> int:
    match block:
        case TextBlock():
            return estimate_text(block.text)
        case ImageBlock():
            return estimate_image(block)
        case ThinkingBlock():
            return _thinking(block)
        case ToolCall():
            signature = estimate_encrypted(len(block.thought_signature or ""))
            return CALL_TOKENS + estimate_text(f"{block.name} {_json(block.arguments)}") + signature
        case UnknownBlock():
            return 0
        case _:
            assert_never(block)


def _thinking(block: ThinkingBlock) -> int:
    """The signature holds the same reasoning, encrypted and whole where the text is a summary: the larger one counts."""
    return max(estimate_text(block.thinking), estimate_encrypted(len(block.thinking_signature or "")))


def _opaque(item: JsonObject) -> int:
    """What a provider made: its encrypted payloads and images as such, all else as text. Iterative, like its depth."""
    tokens = 0
    waiting: list[tuple[str, JsonValue]] = [("", item)]
    while waiting:
        name, value = waiting.pop()
        if is_object(value):
            waiting.extend(value.items())
        elif isinstance(value, list | tuple):
            waiting.extend((name, below) for below in value)  # pyright: ignore[reportUnknownVariableType]  (JSON edge)
        elif isinstance(value, str):
            tokens += _opaque_text(name, value)
    return tokens


def _opaque_text(name: str, text: str) -> int:
    if name == "encrypted_content":
        return estimate_encrypted(len(text))
    return IMAGE_TOKENS if text.startswith("data:image/") else estimate_text(text)


def _json(value: JsonValue) -> str:
    return encode(value).decode()
