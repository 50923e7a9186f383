"""What text from files may do to a terminal: nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.interfaces.cli.printable import columns, cut, first_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]52;c;c2VjcmV0\x1b\\after", "after"),
        ("\x1b]0;never ended", "]0;never ended"),
        ("\x1bPq#0\x1b\\x\x1bcy\x9b2Jz", "xyz"),
        ("tab\tand\nline\r\nbreak\u2028s", "tab and line break s"),
        ("bell\x07 back\x08 null\x00 delete\x7f", "bell back null delete"),
        ("user\u202egnp.exe\u202c \u2066x\u2069 \u200fy \u061cz", "usergnp.exe x y z"),
        ("no\u200bwidth\ufeff \U000e0041tag", "nowidth tag"),
        ("half \ud83d", "half \ufffd"),
        ("é 中 👩\u200d💻", "é 中 👩\u200d💻"),
    ],
)
def test_text_is_printed_without_what_a_terminal_obeys(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_and_tabs_stay_where_they_are_wanted() -> None:
    assert printable("a\tb\r\nc\rd\x1b[1m", lines=True) == "a\tb\nc\nd"


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]\x9b\x07m;0\\P\u202e\ud800"))))
def test_nothing_printable_is_a_control_a_half_character_or_a_change_of_direction(text: str) -> None:
    shown = printable(text)
    kinds = {unicodedata.category(character) for character in shown}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
    shown.encode("utf-8")


@given(st.text(max_size=80), st.integers(1, 40))
def test_a_cut_text_takes_no_more_columns_than_there_are(text: str, width: int) -> None:
    assert columns(cut(printable(text), width)) <= width


def test_a_cut_text_ends_in_an_ellipsis_and_counts_wide_characters_twice() -> None:
    assert (cut("abcdef", 6), cut("abcdefg", 6), cut("中文字", 5), cut("中文字", 6)) == (
        "abcdef",
        "abcde…",
        "中文…",
        "中文字",
    )


def test_the_first_line_is_the_first_that_is_not_blank() -> None:
    assert first_line(" \n\n\t one \u2028 two\nthree") == "one"
