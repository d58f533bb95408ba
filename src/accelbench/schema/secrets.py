"""Secrets, which no record keeps; and the environment variables that one keeps, which tune the computing libraries."""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

MASK = "***"
MIN_LENGTH = 8  # of a variable's value that is looked for in texts: a shorter one may be a word of them
NAMES = re.compile(
    "KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|AUTH(?!OR(?!IZ))|CREDENTIAL|(?:^|_)(?:PASS|PWD)$", re.IGNORECASE
)
ARGUMENTS = re.compile(  # more exact: `num_tokens` and `key_dim` are arguments of networks
    "(?:api|access|secret|private|auth|account)_?key|(?:api|access|auth|bearer|hf|refresh)_?token"
    "|secret|password|passwd|passphrase|credential",
    re.IGNORECASE,
)
# A password may hold any sign but a space.
PASSWORD = re.compile(r"(://[^\s/:@]*:)\S*@")
PARAMETER = re.compile(r"(?i)([?&][\w-]*(?:key|token|secret|password|signature|credential|sig)=)[^\s&'\"]+")
# Tokens that their services mark as such; a JSON web token; a private key.
TOKENS = re.compile(
    r"\b(?:hf_\w{16,}|gh[a-z]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|pypi-[\w-]{20,}"
    r"|sk-[\w-]{20,}|xox[a-z]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
    r"|(?<=[Bb]earer )[\w.~+/-]{16,}=*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)


def is_secret(name: str) -> bool:
    """Whether the environment variable `name` holds a secret, by its name."""
    return NAMES.search(name) is not None


def is_secret_argument(name: str) -> bool:
    """Whether the argument `name` of a user's code holds a secret, by its name."""
    return ARGUMENTS.search(name) is not None


def masked(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text with *** for secrets: passwords in addresses, known kinds of tokens, and values in `environ`.

    Args:
        text: which may quote them, such as the message of an error.
        environ: environment variables; the values of those with a secret's name are looked for, but for paths and
            what is shorter than `MIN_LENGTH`.
    """
    values = {
        line.strip()
        for name, value in environ.items()
        if len(value) >= MIN_LENGTH and is_secret(name) and not os.path.exists(value)
        for line in value.splitlines()
    }
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= MIN_LENGTH:
            text = text.replace(value, MASK)
    return TOKENS.sub(MASK, PARAMETER.sub(rf"\1{MASK}", PASSWORD.sub(rf"\1{MASK}@", text)))


@cache
def tuning() -> frozenset[str]:
    """The environment variables that tune the computing libraries (variables.txt), each by its exact name.

    A prefix would let in others' variables, such as NVIDIA_API_KEY or Terraform's TF_TOKEN_..., which hold secrets.
    """
    lines = Path(__file__).with_name("variables.txt").read_text().splitlines()
    return frozenset(name for line in lines if not line.startswith("#") for name in line.split())


def kept(environ: Mapping[str, str]) -> dict[str, str]:
    """What a record keeps of these environment variables, sorted by name; `***` for a secret in a value."""
    names = [name for name in sorted(environ) if name in tuning() and not is_secret(name)]
    return {name: masked(environ[name], environ) for name in names}
