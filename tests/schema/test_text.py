import pytest

from accelbench.schema.text import clean, one_line


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        *(("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"), ("\x1b]0;title\x07", r"\x1b]0;title\x07")),
        *(("50 %\r100 %\b", r"50 %\x0d100 %\x08"), ("\x00\x0b\x7f", r"\x00\x0b\x7f"), ("\x9b31m\x85", r"\x9b31m\x85")),
        *(("a\u202etxt.exe\u202c", r"a\u202etxt.exe\u202c"), ("\u2066a\u2069", r"\u2066a\u2069")),
        ("a\udcffb\ud800", "a\ufffdb\ufffd"),
    ],
)
def test_characters_that_command_or_reorder_become_visible(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    assert clean(cleaned) == cleaned
    cleaned.encode()


@pytest.mark.parametrize("text", ["", "line 1\nline 2\tx", "Grüße, 数据 – 95 % 🎉", "شبكة\u200f", r"C:\x1b"])
def test_ordinary_text_stays(text: str) -> None:
    assert clean(text) == text


def test_one_line_has_no_breaks_and_no_escapes():
    assert one_line(" a\n\tb\r\nc \x1b[2K") == r"a b c \x1b[2K"
