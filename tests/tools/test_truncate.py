"""Shortening: limits, whole characters, well-formed text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.tools.truncate import (
    MAX_BYTES,
    Truncation,
    byte_length,
    count_lines,
    cut_line,
    head_bytes,
    keep_head,
    keep_tail,
    size_text,
    tail_bytes,
    well_formed,
)

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60)


def test_a_text_within_the_limits_stays_as_it_is() -> None:
    kept = keep_head("a\nb\n")
    assert kept.text == "a\nb\n"
    assert kept.truncation == Truncation(total_lines=2, total_bytes=4, output_lines=2, output_bytes=4)
    assert not kept.truncation.truncated


def test_the_head_keeps_the_first_lines() -> None:
    kept = keep_head("1\n2\n3\n4\n", max_lines=2)
    assert kept.text == "1\n2"
    assert kept.truncation == Truncation(4, 8, 2, 3, truncated_by="lines", max_lines=2)


def test_the_tail_keeps_the_last_lines() -> None:
    kept = keep_tail("1\n2\n3\n4\n", max_lines=2)
    assert kept.text == "3\n4"
    assert kept.truncation == Truncation(4, 8, 2, 3, truncated_by="lines", max_lines=2)


def test_only_whole_lines_are_kept_at_the_byte_limit() -> None:
    assert keep_head("aaa\nbbb\nccc", max_bytes=8).text == "aaa\nbbb"
    assert keep_tail("aaa\nbbb\nccc", max_bytes=8).text == "bbb\nccc"


def test_a_text_of_exactly_the_limit_is_not_shortened_for_its_closing_newline() -> None:
    kept = keep_head("aaa\nbbb\n", max_bytes=7)
    assert kept.text == "aaa\nbbb"
    assert not kept.truncation.truncated


def test_a_single_line_beyond_the_limit_is_cut_and_said_to_be() -> None:
    head, tail = keep_head("abcdef", max_bytes=4), keep_tail("abcdef", max_bytes=4)
    assert (head.text, head.truncation.partial_line) == ("abcd", True)
    assert (tail.text, tail.truncation.partial_line) == ("cdef", True)


@pytest.mark.case("P25")
@pytest.mark.parametrize("offset", range(4))
def test_a_four_byte_character_across_the_limit_is_kept_whole_or_left_out(offset: int) -> None:
    text = "a" * (MAX_BYTES - 4 + offset) + "😀" + "b" * 10
    head = keep_head(text).text
    assert head == text[: MAX_BYTES - 4 + offset] + ("😀" if offset == 0 else "")
    tail = keep_tail(text[::-1]).text
    assert tail == head[::-1]


def test_surrogate_pairs_are_joined_and_lone_ones_replaced() -> None:
    assert [well_formed(text) for text in ("a\ud83d\ude00b", "a\ud800b", "a\udc00b", "\ude00\ud83d", "é😀")] == [
        "a😀b",
        "a\ufffdb",
        "a\ufffdb",
        "\ufffd\ufffd",
        "é😀",
    ]


@given(ANY_TEXT, st.integers(0, 40), st.integers(1, 5))
def test_what_is_kept_is_within_the_limits_well_formed_and_a_part_of_the_text(text: str, size: int, lines: int) -> None:
    whole = well_formed(text)
    head, tail = keep_head(text, max_lines=lines, max_bytes=size), keep_tail(text, max_lines=lines, max_bytes=size)
    assert whole.startswith(head.text)
    assert whole.endswith(tail.text) or whole.removesuffix("\n").endswith(tail.text)
    for kept in (head, tail):
        assert len(kept.text.encode("utf-8")) <= size
        assert count_lines(kept.text) <= lines
        assert kept.truncation.total_bytes == byte_length(whole)


@given(ANY_TEXT, st.integers(0, 40))
def test_cutting_bytes_takes_the_most_whole_characters_that_fit(text: str, size: int) -> None:
    whole = well_formed(text)
    head, tail = head_bytes(whole, size), tail_bytes(whole, size)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert head == whole or byte_length(whole[: len(head) + 1]) > size >= byte_length(head)
    assert tail == whole or byte_length(whole[-len(tail) - 1 :]) > size >= byte_length(tail)


def test_a_long_line_is_cut_with_a_mark() -> None:
    assert cut_line("abc", 3) == "abc"
    assert cut_line("abcd", 3) == "abc... [line cut]"


def test_sizes_read_as_people_write_them() -> None:
    assert [size_text(size) for size in (0, 1023, 51200, 1572864)] == ["0 B", "1023 B", "50.0 KB", "1.5 MB"]
