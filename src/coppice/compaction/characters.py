"""What a text is made of, measured for the token estimate: characters by class, runs of a class, neighbouring classes.

A class is a bit set over the text, one bit a character, so that a run of n or a pair of neighbours is a few shifts and
ands of one large integer, and counting is `int.bit_count`: no Python code runs for a single character. Every measure
grows, or stays, when text is appended; with weights that are not negative the estimate therefore never falls.
Here: the classes and measures. Not here: their weights, and what a message is (`coppice.compaction.estimate`).
"""

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

SLICE: Final = 1 << 18
"""Characters measured at a time (ours): the integers stay in the processor's cache, and 50 MB of text needs few MB."""

ASCII: Final[Mapping[str, bytes]] = {
    "lower": string.ascii_lowercase.encode(),
    "upper": string.ascii_uppercase.encode(),
    "digit": string.digits.encode(),
    "blank": b" \t",
    "newline": b"\r\n",
    "dot": b".,",
    "underscore": b"_",
    "quote": b"\"'`",
    "opening": b"([{<",
    "closing": b")]}>",
    "equals": b"=:;",
    "slash": b"/\\-",
    "sign": b"!@#$%^&*+|~?",
}
"""Class -> its ASCII characters."""

SIGNS: Final = ("dot", "underscore", "quote", "opening", "closing", "equals", "slash", "sign")
"""The classes of ASCII punctuation; together they are the class ``mark``."""

LEADS: Final[Mapping[str, bytes]] = {
    "western": b"\xc3",
    "latin": bytes(range(0xC4, 0xCA)),
    "greek": b"\xce\xcf",
    "cyrillic": b"\xd0\xd1\xd2\xd3\xd4",
    "hebrew": b"\xd6\xd7",
    "arabic": b"\xd8\xd9",
    "persian": b"\xda\xdb",
    "script": b"\xd5\xdc\xdd\xde\xdf\xe0\xe1",
    "han": bytes(range(0xE4, 0xEA)),
    "hangul": b"\xea\xeb\xec\xed",
    "latin_sign": b"\xc2",
    "symbol": b"\xe2",
    "east_symbol": b"\xe3",
    "wide": b"\xef",
    "emoji": bytes(range(0xF0, 0xF5)),
    "rare": b"\xca\xcb\xcc\xcd\xee",
}
"""Class -> the first bytes of its characters in UTF-8 (Unicode's blocks; a few characters of neighbours fall in)."""

PREFIXES: Final[Mapping[str, tuple[bytes, ...]]] = {
    "ukrainian": (b"\xd1\x94", b"\xd1\x96", b"\xd1\x97"),
    "devanagari": (b"\xe0\xa4", b"\xe0\xa5"),
    "thai": (b"\xe0\xb8", b"\xe0\xb9"),
    "vietnamese": (b"\xe1\xba", b"\xe1\xbb"),
    "dash": (b"\xe2\x80",),
    "east_sign": (b"\xe3\x80",),
    "hiragana": (b"\xe3\x81",),
    "kana": (b"\xe3\x82",),
    "katakana": (b"\xe3\x83",),
}
"""Class -> the first two bytes of its characters, where the first alone does not tell. ``kana`` is where hiragana ends
and katakana begins; ``dash`` is general punctuation."""

TRADITIONAL: Final = tuple(character.encode() for character in "個們這來說時會國為與對過後還無將裡開關動學設應檔")
"""Frequent characters of traditional Chinese that simplified Chinese does not use."""

_FREE_BYTES: Final = b"\xc0\xc1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff"
"""Bytes that UTF-8 never holds: each stands for one class of PREFIXES once a text is folded."""

_CODES: Final = {name: _FREE_BYTES[at : at + 1] for at, name in enumerate(PREFIXES)}
_CONTINUATION: Final = bytes(range(0x80, 0xC0))

_MEMBERS: Final[Mapping[str, bytes]] = {
    **ASCII,
    **LEADS,
    **_CODES,
    "lower": ASCII["lower"] + LEADS["western"] + LEADS["latin"] + _CODES["vietnamese"],
    "cyrillic": LEADS["cyrillic"] + _CODES["ukrainian"],
    "arabic": LEADS["arabic"] + LEADS["persian"],
    "mark": b"".join(ASCII[name] for name in SIGNS),
    "letter": ASCII["lower"] + ASCII["upper"] + LEADS["western"] + LEADS["latin"] + _CODES["vietnamese"],
    "not_a": ASCII["upper"].replace(b"A", b""),
    "word": ASCII["lower"] + ASCII["upper"] + ASCII["digit"],
}
"""Class -> the bytes of a folded text that belong to it. ``not_a`` is for base64, where zero bytes are a run of A."""


def _table(members: bytes) -> bytes:
    """A translation of bytes to the digits of a bit set."""
    return bytes(0x31 if byte in members else 0x30 for byte in range(256))


_TABLES: Final = {name: _table(members) for name, members in _MEMBERS.items()}

RUNS: Final[Mapping[str, tuple[int, ...]]] = {
    "lower": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16),
    "upper": (1, 2, 3, 4, 6, 8),
    "not_a": (2, 3, 4, 6, 8),
    "letter": (1,),
    "mark": (1, 2, 3, 4, 6, 9, 16),
    "blank": (2, 3, 5, 9, 17, 33),
    "newline": (1, 2, 3),
    "western": (1,),
    "latin": (1,),
    "greek": (1, 5, 8),
    "cyrillic": (1, 3, 5, 7, 9, 12),
    "hebrew": (1, 4, 6),
    "arabic": (1, 3, 5, 7),
    "persian": (1,),
    "script": (1,),
    "han": (1, 2, 3, 4),
    "hangul": (1, 2, 3, 4, 6),
    "latin_sign": (1,),
    "symbol": (1,),
    "east_symbol": (1,),
    "wide": (1,),
    "emoji": (1,),
    "rare": (1,),
    "devanagari": (1, 3, 5, 7),
    "thai": (1,),
    "dash": (1,),
    "east_sign": (1,),
    "hiragana": (1, 2, 3, 4),
    "kana": (1,),
    "katakana": (1, 2, 4, 6),
}
"""Class -> the lengths n for which its runs of n or more characters are counted."""

COUNTED: Final = (*SIGNS, *LEADS, *PREFIXES)
"""Classes whose characters are counted."""

EXCESS: Final = ("lower", "upper", "not_a", "mark", "blank", "newline")
"""Classes whose characters past the longest counted run are counted."""

PAIRS: Final = (
    ("upper", "lower"),
    ("lower", "upper"),
    ("lower", "digit"),
    ("upper", "digit"),
    ("digit", "lower"),
    ("digit", "upper"),
    ("blank", "digit"),
    ("blank", "upper"),
    ("word", "newline"),
    ("newline", "letter"),
    *((sign, after) for sign in SIGNS for after in ("lower", "upper", "digit", "newline")),
    *((before, sign) for sign in SIGNS for before in ("blank", "word")),
    *((sign, sign) for sign in SIGNS),
    *((script, "newline") for script in ("cyrillic", "arabic", "devanagari", "han", "hangul", "hiragana", "katakana")),
)
"""Neighbours (class, next class) that are counted."""

DIGIT_RUNS: Final = (1, 4, 7, 10, 13)
"""Digits go three to a token; past 12 in a row every third one counts."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A text with one byte for each character: ASCII as it is, any other by the class of its script.

    ``data`` begins with a blank, so that what stands at the beginning has a neighbour. ``encoded`` is the text in UTF-8,
    None where it is ASCII.
    """

    data: bytes
    encoded: bytes | None

    def bit_set(self, name: str) -> int:
        """The characters of a class: the first character is the highest bit."""
        return int(self.data.translate(_TABLES[name]), 2)

    def classes(self) -> dict[str, int]:
        """Class -> its bit set, for the classes that have characters here."""
        sets = {name: members for name in _ALWAYS if (members := self.bit_set(name))}
        if self.encoded is not None:
            sets |= {name: self.bit_set(name) for name in _SINGLE if any(byte in self.data for byte in _SINGLE[name])}
        return sets


_FOLLOWERS: Final = {
    before: [(after, f"{before} {after}") for one, after in PAIRS if one == before] for before, _ in PAIRS
}
_ALWAYS: Final = (*ASCII, "mark", "letter", "word", "not_a")
_SINGLE: Final = {name: [bytes((byte,)) for byte in _MEMBERS[name]] for name in (*LEADS, *PREFIXES)}


def folded(text: str) -> Folded:
    """Fold a text. Half characters fold as they would be encoded."""
    encoded = b" " + text.encode("utf-8", "surrogatepass")
    if len(encoded) == len(text) + 1:
        return Folded(encoded, None)
    data = encoded
    for name, prefixes in PREFIXES.items():
        for prefix in prefixes:
            data = data.replace(prefix, _CODES[name])
    return Folded(data.translate(None, _CONTINUATION), encoded)


def measures(text: str) -> dict[str, float]:
    """Measure -> amount, summed over slices of the text; measures of absent classes are left out."""
    total: dict[str, float] = {}
    for start in range(0, len(text), SLICE):
        for name, amount in _measured(folded(text[start : start + SLICE])):
            total[name] = total.get(name, 0) + amount
    return total


def _measured(fold: Folded) -> Iterator[tuple[str, float]]:
    sets = fold.classes()
    for name, lengths in RUNS.items():
        if name in sets:
            yield from _run_measures(name, sets[name], lengths)
    for name in COUNTED:
        if name in sets:
            yield f"each {name}", sets[name].bit_count()
    for before, followers in _FOLLOWERS.items():
        if before in sets:
            after_it = sets[before] >> 1
            for after, name in followers:
                if after in sets:
                    yield name, (after_it & sets[after]).bit_count()
    if "digit" in sets:
        yield "digits", _digit_groups(sets["digit"])
    if fold.encoded is not None and "han" in sets:
        yield "traditional", sum(fold.encoded.count(character) for character in TRADITIONAL)


def _run_measures(name: str, members: int, lengths: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    """How many runs have at least each of the lengths, and how many characters stand past the longest."""
    ends = _run_ends(members, lengths[-1] + 1)
    for length in lengths:
        yield f"{name} run {length}", ends[length] - ends[length + 1]
    if name in EXCESS:
        yield f"{name} excess", ends[lengths[-1] + 1]


def _run_ends(members: int, longest: int) -> list[int]:
    """At n: at how many characters a run of n members ends (so a run of m counts m - n + 1 times)."""
    found = [0] * (longest + 1)
    ends = members
    for length in range(1, longest + 1):
        if not ends:
            break
        found[length] = ends.bit_count()
        ends &= members >> length
    return found


def _digit_groups(digits: int) -> float:
    """Groups of up to three digits, as tokenizers cut them."""
    ends = _run_ends(digits, DIGIT_RUNS[-1])
    groups = sum(ends[length] - ends[length + 1] for length in DIGIT_RUNS[:-1])
    return groups + ends[DIGIT_RUNS[-1]] / 3
