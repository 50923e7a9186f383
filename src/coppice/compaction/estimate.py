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
    "lower run 1": 0.449,
    "lower run 2": 0.091,
    "lower run 6": 0.072,
    "lower run 8": 0.38,
    "lower run 9": 0.922,
    "lower run 10": 0.028,
    "lower run 11": 0.186,
    "lower run 14": 0.251,
    "lower run 16": 0.608,
    "lower excess": 0.571,
    "upper run 2": 0.137,
    "upper run 3": 0.325,
    "upper run 4": 0.99,
    "upper run 8": 1.241,
    "upper excess": 0.105,
    "not_a excess": 0.857,
    "letter run 1": 0.273,
    "mark run 1": 0.028,
    "mark run 3": 0.854,
    "mark run 4": 0.141,
    "mark run 6": 2.747,
    "mark run 9": 1.004,
    "blank run 2": 0.168,
    "blank run 9": 0.355,
    "blank run 33": 6.662,
    "newline run 1": 0.552,
    "each opening": 0.014,
    "upper lower": 0.188,
    "lower upper": 0.909,
    "upper digit": 0.866,
    "digit lower": 0.948,
    "digit upper": 1.233,
    "blank digit": 1.641,
    "blank upper": 0.296,
    "word newline": 0.483,
    "newline letter": 0.166,
    "dot upper": 1.441,
    "dot digit": 0.755,
    "underscore lower": 0.158,
    "quote lower": 0.313,
    "quote newline": 1.427,
    "slash lower": 0.63,
    "slash upper": 1.582,
    "slash digit": 1.767,
    "sign lower": 0.758,
    "sign digit": 3.147,
    "sign newline": 0.715,
    "blank dot": 1.392,
    "word dot": 0.43,
    "blank underscore": 1.819,
    "blank quote": 1.163,
    "word quote": 0.261,
    "blank opening": 2.017,
    "word opening": 0.835,
    "blank closing": 0.944,
    "word closing": 0.47,
    "blank equals": 2.105,
    "word equals": 0.507,
    "blank slash": 1.518,
    "blank sign": 0.96,
    "digits": 0.581,
    "each dash": 0.548,
    "symbol run 1": 1.54,
    "each symbol": 0.104,
    "each latin_sign": 1.45,
    "western run 1": 0.191,
    "latin run 1": 1.914,
    "greek run 5": 2.641,
    "greek run 8": 0.583,
    "each greek": 0.126,
    "han run 1": 0.118,
    "han run 2": 0.361,
    "han run 3": 0.18,
    "han run 4": 0.861,
    "east_sign run 1": 0.261,
    "each han": 0.536,
    "each wide": 0.747,
    "each east_sign": 0.565,
    "han newline": 0.129,
    "traditional": 2.758,
    "emoji run 1": 3.096,
    "each emoji": 1.595,
    "hiragana run 1": 0.581,
    "hiragana run 2": 0.069,
    "hiragana run 4": 2.517,
    "katakana run 1": 1.194,
    "katakana run 4": 1.773,
    "katakana run 6": 3.19,
    "each kana": 0.625,
    "katakana newline": 0.745,
    "hangul run 1": 0.737,
    "hangul run 2": 0.676,
    "hangul run 3": 0.29,
    "hangul run 4": 0.153,
    "hangul run 6": 0.269,
    "each hangul": 0.16,
    "hangul newline": 0.858,
    "devanagari run 1": 0.425,
    "devanagari run 3": 0.276,
    "devanagari run 5": 1.031,
    "devanagari run 7": 2.443,
    "each devanagari": 0.065,
    "devanagari newline": 1.075,
    "cyrillic run 1": 0.641,
    "cyrillic run 3": 0.232,
    "cyrillic run 5": 0.445,
    "cyrillic run 7": 0.465,
    "cyrillic run 9": 0.316,
    "cyrillic run 12": 1.212,
    "each cyrillic": 0.024,
    "cyrillic newline": 1.305,
    "arabic run 1": 0.39,
    "arabic run 3": 0.678,
    "arabic run 7": 0.925,
    "each arabic": 0.106,
    "arabic newline": 0.872,
    "thai run 1": 0.629,
    "each thai": 0.374,
    "hebrew run 1": 0.525,
    "hebrew run 4": 1.107,
    "each hebrew": 0.197,
    "each ukrainian": 1.714,
    "persian run 1": 0.202,
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
            waiting.extend((name, below) for below in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  (JSON edge)
        elif isinstance(value, str):
            tokens += _opaque_text(name, value)
    return tokens


def _opaque_text(name: str, text: str) -> int:
    if name == "encrypted_content":
        return estimate_encrypted(len(text))
    return IMAGE_TOKENS if text.startswith("data:image/") else estimate_text(text)


def _json(value: JsonValue) -> str:
    return encode(value).decode()
