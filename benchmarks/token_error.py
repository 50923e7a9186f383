"""How far the token estimate is from o200k_base, a BPE vocabulary in use today, on text it was not fitted on.

The vocabulary comes in the wheel of bpe-openai; nothing is downloaded. Here: the error for each kind of text and its
bars. Not here: the texts (`benchmarks.token_texts`) and the fitting (`benchmarks.fit_tokens`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from benchmarks.figure import Bar, Figure, Scale, Spread
from benchmarks.token_texts import LOCALES, chunks, texts
from coppice.compaction.estimate import estimate_text

VOCABULARY: Final = "o200k_base"

TOTAL_BAR: Final = 5.0
"""The most a kind's whole estimate may be off, in percent of its tokens."""

CHUNK_BAR: Final = 10.0
"""The most a 4 KiB chunk's estimate may be off on average, in percent of its tokens."""

KINDS: Final = ("English", *LOCALES, "source code", "JSON", "base64", "logs")
"""The kinds of text that have bars."""

NEEDED: Final = ("bpe_openai", "django", "jupyterlab_language_pack_zh_CN")
"""Packages of the development environment without which there is no table."""

Count = Callable[[str], int]
"""Counts a text's tokens."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of text and its tokens by the vocabulary."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ErrorOf:
    """How far an estimate is off: over all ``chunks``, signed; and on average for one. Percent of the tokens."""

    chunks: int
    total: float
    chunk: float
    worst: float


def missing() -> tuple[str, ...]:
    """Which of the packages that the table needs are not installed."""
    return tuple(name for name in NEEDED if find_spec(name) is None)


def vocabulary() -> Count:
    """Counts tokens by the vocabulary. Text that looks like a special token counts as text."""
    encode = import_module("bpe_openai").get_encoding(VOCABULARY).encode
    return lambda text: len(encode(text, disallowed_special=()))


def chunks_of(text: str, count: Count) -> list[Chunk]:
    """The chunks of a text and their tokens."""
    return [Chunk(chunk, count(chunk)) for chunk in chunks(text)]


def error_of(parts: Sequence[str], estimate: Callable[[str], float]) -> ErrorOf:
    """How far `estimate` is off on the chunks of the texts."""
    count = vocabulary()
    found = [chunk for part in parts for chunk in chunks_of(part, count)]
    estimates = [estimate(chunk.text) for chunk in found]
    total = sum(estimates) / sum(chunk.tokens for chunk in found) - 1
    each = [abs(guess / chunk.tokens - 1) for guess, chunk in zip(estimates, found, strict=True)]
    return ErrorOf(len(found), 100 * total, 100 * sum(each) / len(each), 100 * max(each))


def errors() -> dict[str, ErrorOf]:
    """Kind of text -> the estimate's error on the half it was not fitted on."""
    return {kind: error_of(parts, estimate_text) for kind, parts in texts("test").items()}


def figures(_: Scale) -> Iterator[Figure]:
    """Two figures for each kind: the error of the whole, and that of a chunk."""
    absent = missing()
    if absent:
        yield Figure("token estimate", note=f"not installed: {', '.join(absent)}")
        return
    for kind, error in errors().items():
        total = abs(error.total)
        note = f"{error.total:+.1f} % over {error.chunks} chunks of 4 KiB, worst chunk {error.worst:.1f} %"
        yield Figure(f"{kind}, whole", "%", Spread(total, total, total, 1), None, Bar(TOTAL_BAR), note)
        yield Figure(f"{kind}, a chunk", "%", Spread(error.chunk, 0, error.worst, error.chunks), None, Bar(CHUNK_BAR))
