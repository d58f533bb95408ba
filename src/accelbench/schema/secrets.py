"""Finds and masks secrets, so that no record contains them. Chooses the environment variables for a record."""

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

# Characters of a secret value that is searched for in texts; a shorter one may be an ordinary word.
MIN_LENGTH = 8
# Names of secret environment variables.
VARIABLE = re.compile(
    "(?i)KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|AUTH(?!OR(?!IZ))|CREDENTIAL|(?:^|_)(?:PASS|PWD)$"
)
# Names of secret arguments, such as `db_password` and `api_key`, but not `num_tokens` and `key_dim`.
OWNERS = (
    "access|account|admin|api|auth|bearer|client|database|db|encryption|license|login|master|private|refresh|root|secret|"
    "security|service|session|signing|smtp|ssh|storage|user|anthropic|aws|azure|cohere|comet|gcp|gemini|git|github|gitlab|"
    "google|hf|hub|huggingface|kaggle|mistral|mlflow|neptune|ngc|nvidia|openai|s3|slack|wandb"
)
NAMED = (
    rf"(?i:(?!(?:num|n|max|min)[_-])[\w.-]*?(?:secret|passw(?:or)?d|passphrase|credential|(?:{OWNERS})[_-]?(?:key|token|pass)s?(?![a-z]))"
    r"[\w-]*|(?:[\w.-]*[_.-])?(?:o?auth|authorization|cookie|jwt|pwd)(?:[_-][\w-]*)?|token|pass)"
)
# In JSON: an argument of such a name with a text, a large number (a smaller one is a size), a list or a mapping.
ARGUMENT = re.compile(rf'"(?:{NAMED})": (?:"[^"]|-?\d{{6}}|\[[^\]]|{{[^}}])')
# Secrets in an address: a password, a token in place of a user name, a signature. The group is the text before it.
ADDRESSES = [
    re.compile(pattern)
    for pattern in (
        r"(://[^\s/:@]{0,300}:)(?!\d{1,5}/)\S{1,300}(?=@)",
        r"(https?://)[^\s/:@]{8,300}(?=@)",
        r"([?&](?i:[\w.-]{0,60}(?:key|token|secret|password|auth|sig|signature))=)[^\s&'\"]+",
    )
]


def secret_argument(arguments: Mapping[str, Any]) -> str | None:
    """Returns the name of the first argument that contains what looks like a secret, by its name or its text."""
    for name, value in arguments.items():
        text = json.dumps({name: value}, ensure_ascii=False)
        if ARGUMENT.search(text) or masked(text) != text:
            return name
    return None


def masked(text: str) -> str:
    """Returns the text with *** in place of secrets (see `masker`)."""
    return masker()(text)


def masker(environ: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """Returns a function that replaces secrets in a text by ***.

    If the name of an environment variable suggests a secret, each line of its value is a secret. The value is no secret
    if it is the path of an existing file. A line is no secret if it is shorter than `MIN_LENGTH`. The parts of
    addresses that `ADDRESSES` match are secrets, too.
    """
    values = set[str]()
    for name, value in environ.items():
        if VARIABLE.search(name) and not os.path.exists(value):
            values.update(line.strip() for line in value.splitlines())
    return _masker(frozenset(value for value in values if len(value) >= MIN_LENGTH))


@functools.lru_cache(8)
def _masker(values: frozenset[str]) -> Callable[[str], str]:
    forms = {form for value in values for form in _quoted(value)}
    of_variables = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))

    @functools.lru_cache(1000)  # records have many texts in common
    def mask(text: str) -> str:
        if forms:
            text = of_variables.sub("***", text)
        for address in ADDRESSES:
            text = address.sub(r"\1***", text)
        return text

    return mask


def _quoted(value: str) -> set[str]:
    """Returns the forms of a value in a text: plain, or quoted for repr, JSON, URLs, ini files and shells."""
    return {
        value,
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, errors="surrogateescape"),
        quote(value, safe="", errors="surrogateescape"),
        value.replace("%", "%%"),
        value.replace("'", "'\"'\"'"),
    }


@functools.cache
def tuning() -> frozenset[str]:
    """The names of the environment variables that tune the computing libraries, from variables.txt."""
    # Names are exact: a prefix would admit other variables that hold secrets, such as NVIDIA_API_KEY and TF_TOKEN_...
    lines = Path(__file__).with_name("variables.txt").read_text().splitlines()
    named = [line for line in lines if not line.startswith("#")]
    return frozenset(name for line in named for name in line.split())


def kept(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables for a record, sorted by name. Secrets in values are replaced by ***."""
    hide = masker(environ)
    return {name: hide(environ[name]) for name in sorted(tuning() & environ.keys())}
