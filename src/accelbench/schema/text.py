"""Makes text from other programs, such as an exception's message, safe to print."""

import re

from accelbench.schema.secrets import masked

# Characters of any text in a record or a plan: a longer one would fill the pages that show it.
MAX_TEXT = 4000
MAX_REASON = 500
# A shorter first line lacks the cause, such as Keras' `Exception encountered in Net.call().`.
MIN_SUMMARY = 60
# Control characters except tab and newline, bidirectional overrides and isolates (they reorder text), lone surrogates.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Parts of frameworks' messages when memory runs out. torch's CPU allocator and XLA raise plain RuntimeErrors.
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "RESOURCE_EXHAUSTED",
    "ALLOC_FAILED",
    "ALLOCATION_FAILED",
    "unable to find an engine",  # cuDNN, if there is no memory for its workspace
)


def clean(text: str) -> str:
    """Returns `text` without the characters that control a terminal, reorder text or can't be encoded."""
    # A control character or a bidirectional override becomes a visible escape, such as `\x1b`. A lone surrogate becomes
    # U+FFFD. All other characters stay, also newline and tab. Cleaning twice equals cleaning once.
    # A printable text has no unsafe character. Most texts are printable, so this quick test comes first.
    return text if text.isprintable() else UNSAFE.sub(_visible, text)


def one_line(text: str) -> str:
    """`clean(text)` on one line: each run of spaces, tabs and line breaks becomes one space."""
    return clean(" ".join(text.split()))


def summary(text: str) -> str:
    """Returns the beginning of an exception's message, on one line.

    The beginning is the first line. If it is short or names no cause, the next lines are added. If the message contains
    a traceback, only the last line is added.
    """
    first, *others = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if "Traceback (most recent call last)" in text:
        return f"{first} {others[-1]}" if others else first
    for line in others:
        if len(first) >= MIN_SUMMARY and not first.endswith((":", ",", "(")):
            break
        first = f"{first} {line}"
    return first


def message_of(error: BaseException) -> str:
    """Returns the exception's whole message, with *** for secrets. Returns "" if the exception's `__str__` fails."""
    try:
        return masked(str(error)).strip()
    except Exception:
        return ""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception reports that the host or a device ran out of memory."""
    is_named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_named or any(words in message_of(error) for words in OUT_OF_MEMORY)


def beginning(text: str, most: int = MAX_TEXT) -> str:
    """Returns `clean(text)`. If it is longer than `most` characters, returns its beginning and an ellipsis."""
    cleaned = clean(text)
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + "…"


def ending(text: str, most: int = MAX_TEXT) -> str:
    """Returns `clean(text)`. If it is longer than `most` characters, returns an ellipsis and its end."""
    cleaned = clean(text)
    return cleaned if len(cleaned) <= most else "…" + cleaned[1 - most :]


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
