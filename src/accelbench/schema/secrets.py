"""Secrets, which no record keeps; and the environment variables that one keeps, which tune the computing libraries."""

import functools
import html
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

MIN_LENGTH = 8  # of a variable's value that is looked for in texts: a shorter one may be a word of them
SMALL = 10**5  # a number below it is a size, such as `user_tokens=2048`, and no secret

# Names of variables; and names such as `db_password`, `dbPassword` and `X-Api-Key`, unlike `num_tokens` and `key_dim`.
VARIABLE = re.compile(
    "(?i)KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|AUTH(?!OR(?!IZ))|CREDENTIAL|(?:^|_)(?:PASS|PWD)$"
)
OWNERS = (
    "access|account|admin|api|auth|bearer|client|database|db|encryption|license|login|master|private|refresh|root|secret|"
    "security|service|session|signing|smtp|ssh|storage|user|anthropic|aws|azure|cohere|comet|gcp|gemini|git|github|gitlab|"
    "google|hf|hub|huggingface|kaggle|mistral|mlflow|neptune|ngc|nvidia|openai|s3|slack|wandb"
)
NAME = (
    r"(?:(?i:(?!(?:num|n|max|min)[_-])[\w.-]{0,60}?"
    rf"(?:secret|passw(?:or)?d|passphrase|credential|(?:{OWNERS})[_-]?(?:key|token|pass)s?(?![a-z]))[\w-]*"
    r"|(?:[\w.-]{0,60}[_.-])?(?:o?auth|authorization|cookie|jwt|pwd)(?:[_-][\w-]*)?|token|pass)"
    r"|[A-Z0-9_]{0,60}?(?:KEY|TOKEN)S?(?:_[A-Z0-9]+)*)"
)
ARGUMENT = re.compile(NAME)
# Its value is neither masked already, nor a small number, a word of Python or JSON, or a `<pad>`.
VALUE = r"(?!\*\*\*|<\w+>|\[\w+\]|(?:\d{1,5}|(?i:none|null|true|false))\b)"
QUOTED = rf"[bru]?(?P<quote>\\*['\"])){VALUE}(?:(?!(?P=quote))(?:\\.|[^\n]))+"
BARE = rf"{VALUE}[^\s'\",;&(){{}}\[\]][^\s'\",;&)}}\]]*"
CALL = r"[ \t]+[A-Za-z_][\w.]*[(\[]"  # a line of code, as tracebacks have it
BEGIN = r"(?<![\w.-])(?=[\w.-]{1,80}+\\*['\"]?[ \t]{0,3}[:=])"  # of what has a sign after it: the rest is slow
SIGN = r"\\*['\"]?[ \t]{0,3}[:=](?!=)[ \t]{0,3}+"
QUOTED_BY: Sequence[Callable[[str], str]] = (
    lambda text: repr(text)[1:-1],
    lambda text: ascii(text)[1:-1],
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text.encode(errors="surrogateescape"))[2:-1],
    html.escape,
    lambda text: quote(text, errors="surrogateescape"),
    lambda text: quote(text, safe="", errors="surrogateescape"),
    lambda text: quote_plus(text, errors="surrogateescape"),
    lambda text: shlex.quote(f"{text} ")[1:-2],  # a space, since it leaves a plain word as it is
)
# What stands before a secret, and the secret.
PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"()-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}-----|\Z)",
        # A password in an address may hold any sign but a space; a user's name may be a token.
        r"(://)[^\s/:@]{16,300}(?=:(?!\d{1,5}/)\S{0,300}@)",
        r"(://[^\s/:@]{0,300}:)(?!\d{1,5}/)\S{1,300}(?=@)",
        r"(https?://)[^\s/:@]{8,300}(?=@)",
        # Tokens that their services mark as such, and JSON web tokens.
        r"()\b(?:hf_|gh[opsru]_|github_pat_|gl(?:pat|rt|cbt|dt|ptt|ft)-|nvapi-|pypi-A|npm_|sk-(?=[\w-]{20})|[sr]k_(?:live|test)_|xox[a-z]-"
        r"|xapp-|AIza|ya29\.|GOCSPX-|dapi|SG\.|hvs\.|wandb_v1_|dckr_pat_)(?=[\w.-]{0,80}\d)[\w.-]{16,}",
        r"()\b(?:A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)",
        r"(hooks\.slack\.com/services/)[\w/]+",
        r"([Bb]earer )[\w.~+/-]{16,}=*",
        r"([Bb]asic )(?=[A-Za-z+/]{0,80}[\d=])[\w+/]{12,}=*",
        r"([?&](?i:[\w.-]{0,60}sig(?:nature)?)=)[^\s&'\"]+",
        # `"name": "value"`; `Authorization: value`; ` name = value`; `name: value`, alone on its line or with a digit;
        # `name=value`; `--name value` and `"--name", "value"`.
        rf"({BEGIN}{NAME}{SIGN}{QUOTED}",
        rf"({BEGIN}(?i:[\w-]{{0,60}}(?:authorization|cookie)){SIGN}{VALUE})(?!['\"])[^\n]+",
        rf"(?m)(^[ \t]*{BEGIN}{NAME}[ \t]{{1,3}}=(?!=)(?!{CALL})[ \t]*+){VALUE}[^\s'\"][^\n]*",
        rf"(?m)(^[ \t]*{BEGIN}{NAME}:[ \t]+){VALUE}\S+$",
        rf"({BEGIN}{NAME}\\*['\"]?:[ \t]{{0,3}})(?=\S{{0,60}}\d){BARE}",
        rf"({BEGIN}{NAME}\\*['\"]?[ \t]{{0,3}}=(?!=)(?!{CALL})[ \t]{{0,3}}+){BARE}",
        rf"((?<![\w-])--?(?=[\w-]{{1,80}}+[\\'\"\s]){NAME}(?:\\*['\"],)?\s{{1,3}}\\*['\"]?)(?!-){VALUE}[^\s'\"]+",
    )
]


@functools.cache
def is_secret(name: str) -> bool:
    """Whether the environment variable `name` holds a secret, by its name."""
    return VARIABLE.search(name) is not None


def is_secret_argument(name: str) -> bool:
    """Whether the argument `name` of a user's code holds a secret, by its name."""
    return ARGUMENT.fullmatch(name) is not None


def secret_argument(arguments: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> str | None:
    """The place of a value that looks like a secret, by its name or by itself, such as `cfg.api_key`; None without."""
    return next(_secret_places(arguments, False, masker(environ)), None)


def _secret_places(value: Any, is_named: bool, hide: Callable[[str], str]) -> Iterator[str]:
    """The places in `value` of what is a secret; `is_named`: the name of what holds it says that it is one."""
    if isinstance(value, str):
        if value and (is_named or hide(value) != value):
            yield ""
    elif isinstance(value, Mapping | Sequence):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, inner in items:
            for place in _secret_places(inner, is_named or is_secret_argument(str(name)), hide):
                yield f"{name}.{place}".rstrip(".")
    elif is_named and isinstance(value, int | float) and abs(value) >= SMALL:
        yield ""


def masked(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text with *** for secrets: see `masker`."""
    return masker(environ)(text)


def masker(environ: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """What puts *** for the values of variables with secrets' names, however they are quoted, and for `PATTERNS`.

    Paths are no such values, nor what is shorter than `MIN_LENGTH`.
    """
    hidden = [environ[name] for name in filter(is_secret, environ)]
    lines = {line.strip() for value in hidden if not os.path.exists(value) for line in value.splitlines()}
    return _masker(frozenset(line for line in lines if len(line) >= MIN_LENGTH))


@functools.lru_cache(8)
def _masker(values: frozenset[str]) -> Callable[[str], str]:
    patterns = [*map(_quoted_anyhow, sorted(values, key=len, reverse=True)), *PATTERNS]

    @functools.lru_cache(1000)  # records have many texts in common
    def mask(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub(r"\1***", text)
        return text

    return mask


def _quoted_anyhow(value: str) -> re.Pattern[str]:
    """The value, also as repr, JSON, HTML, a shell or an address quote it, once or twice."""
    forms = {value}
    for _ in range(2):
        forms |= {quoted(form) for form in forms for quoted in QUOTED_BY}
    return re.compile(f"()(?i:{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})")


@functools.cache
def tuning() -> frozenset[str]:
    """The environment variables that tune the computing libraries (variables.txt), each by its exact name."""
    # A prefix would let in others' variables, such as NVIDIA_API_KEY or Terraform's TF_TOKEN_..., which hold secrets.
    lines = Path(__file__).with_name("variables.txt").read_text().splitlines()
    return frozenset(name for line in lines if not line.startswith("#") for name in line.split())


def kept(environ: Mapping[str, str]) -> dict[str, str]:
    """What a record keeps of these environment variables, sorted by name; `***` for a secret in a value."""
    names = [name for name in sorted(environ) if name in tuning() and not is_secret(name)]
    hide = masker(environ)
    return {name: hide(environ[name]) for name in names}
