import pytest

from accelbench.schema.text import clean, is_out_of_memory, one_line, summary


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        *(("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"), ("\x1b]0;title\x07", r"\x1b]0;title\x07")),
        ("50 %\r100 %\b", r"50 %\x0d100 %\x08"),
        ("a\u202etxt.exe\u202c", r"a\u202etxt.exe\u202c"),
        ("a\udcffb\ud800", "a\ufffdb\ufffd"),
        *[("line 1\nline 2\tx, Grüße, 数据 – 95 % 🎉",) * 2],
    ],
)
def test_characters_that_command_or_reorder_become_visible(text, cleaned):
    assert clean(text) == cleaned
    assert clean(cleaned) == cleaned
    cleaned.encode()


def test_the_lines_of_a_message_become_one():
    assert one_line(" a\n\tb\r\nc \x1b[2K") == r"a b c \x1b[2K"


LONG = "the weights of layer 7 are of the shape 3 x 4, and 4 x 3 was expected"
KERAS = "Exception encountered when calling Net.call()."


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"{LONG}\nmore", LONG),
        ("\n\nException from core.cpp:132:\n\nCheck 'x' failed\n", "Exception from core.cpp:132: Check 'x' failed"),
        (f"{KERAS}\n\nInput 0 is bad: 3", f"{KERAS} Input 0 is bad: 3"),
        ("In worker 0.\nTraceback (most recent call last):\n  f()\nValueError: 7\n", "In worker 0. ValueError: 7"),
        ("", ""),
    ],
)
def test_a_summary_goes_on_until_the_cause_is_told(text, cause):
    assert summary(text) == cause


@pytest.mark.parametrize("text", ["CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "unable to find an engine"])
def test_a_convolution_whose_workspace_finds_no_room_is_out_of_memory(text):
    assert is_out_of_memory(RuntimeError(text))
