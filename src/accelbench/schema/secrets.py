"""Secrets, which no record keeps; and the environment variables that one keeps, which tune the computing libraries."""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

T = TypeVar("T")

MASK = "***"
MIN_LENGTH = 8  # of a variable's value that is looked for in texts: a shorter one may be a word of them
NAMES = re.compile("(?i)KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|AUTH(?!OR(?!IZ))|CREDENTIAL|(?:^|_)(?:PASS|PWD)$")

# Arguments of a user's code, whose names are written as `db_password`, `db-password` or `dbPassword`. `num_tokens` and
# `key_dim` are arguments of networks, `sort_key` and `pad_token` too, unless their value looks like a secret.
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SECRET_PARTS = re.compile("secret|password|passwd|passphrase|credential|apikey|authkey|authtoken|accesstoken|accesskey")
SECRET_WORDS = {"auth", "authorization", "oauth", "pwd", "jwt"}
KEYS = {"key", "keys", "token", "tokens", "pass"}
OWNERS = {
    *("access", "account", "admin", "api", "auth", "bearer", "client", "database", "db", "encryption", "license"),
    *("login", "master", "private", "refresh", "root", "secret", "service", "session", "signing", "smtp", "ssh"),
    *("storage", "user", "anthropic", "aws", "azure", "cohere", "comet", "gcp", "gemini", "git", "github", "gitlab"),
    *("google", "hf", "hub", "huggingface", "kaggle", "mistral", "mlflow", "neptune", "ngc", "nvidia", "openai"),
    *("s3", "slack", "wandb"),
}
COUNTS = {"num", "n", "max", "min"}
RANDOM_TEXT = re.compile(r"[A-Za-z0-9]{16,}")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
ENUMERATED = {"device", "precision", "stop", "promise"}  # entries of a record that are words of ours
NUMBERS = {int, float, bool, type(None)}
MIN_CHANGES = 3  # between letters and digits, of a text without words
SMALL = 10**5  # a number below it is a size, such as `user_tokens=2048`, and no secret
LARGE = 10**8  # a number of an argument that may as well be a count is smaller

# A password may hold any sign but a space; a user's name may be a token.
ADDRESS = re.compile(r"(?<=://)([^\s/:@]{0,300})(:\S{0,300})?@")
PORT = re.compile(r":\d{1,5}/")
WEB = re.compile(r"https?://$", re.IGNORECASE)
USERS = {"git", "hg", "svn"}  # names in addresses that tell nothing
PARAMETER = re.compile(
    r"([?&;][\w.-]*(?:key|token|secret|passw(?:or)?d|passphrase|pwd|pass|signature|credential|sig|auth|jwt)=)"
    r"[^\s&'\"]+",
    re.IGNORECASE,
)
HEADER = re.compile(
    r"(\b(?:proxy-)?authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?)(?:(?:basic|bearer|digest|token|apikey|negotiate)\s{1,3})?"
    r"[^\s\"',]+",
    re.IGNORECASE,
)
# `api_key=...`, `"api_key": "..."` and `X-Api-Key: ...`, but no sentence (`api_key: looks like a secret`).
ASSIGNED = re.compile(
    r"((?:api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|secret|passw(?:or)?d|passphrase"
    r"|(?:auth|access|refresh|bearer|private|session)[_-]?token)[\w-]{0,20}[\"']?"
    r"(?:=(?!=)[\"']?|\s{0,3}[:=]\s{0,3}[\"']|:\s{0,3}(?=\S{0,60}\d)))"
    r"(?!\*\*\*)[^\s\"',;&)}\]]{4,}",
    re.IGNORECASE,
)
# `--password abc`, and `TOKEN=abc` as a shell has it: in capitals, unlike the arguments of networks.
FLAG = re.compile(
    r"((?<![\w-])--?(?:[\w-]*[_-])?(?:password|passwd|passphrase|token|secret|api-?key|access-?key|credentials?)(?:=|\s{1,3})[\"']?)"
    r"(?!\*\*\*|-)[^\s\"']+",
    re.IGNORECASE,
)
VARIABLE = re.compile(
    r"(\b[A-Z0-9_]{0,60}?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?:_[A-Z0-9]{1,30}){0,4}=[\"']?)"
    r"(?!\*\*\*|\d{1,5}\b)[^\s\"',;&)}\]]+"
)
ASSIGNMENTS = (PARAMETER, HEADER, ASSIGNED, FLAG, VARIABLE)
# Each of `ASSIGNMENTS` has one of the one, each of `TOKENS` one of the other: looking for these is faster.
ASSIGNING = ("key", "token", "secret", "pwd", "pass", "signature", "credential", "sig=", "auth", "jwt")
MARKS = (
    *("hf_", "gho_", "ghp_", "ghs_", "ghr_", "ghu_", "github_pat_", "gl", "nvapi-", "pypi-", "npm_", "sk-", "k_"),
    *("xox", "xapp-", "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ya29", "GOCSPX-", "dapi", "SG.", "hvs.", "wandb_v1_"),
    *("dckr_pat_", "eyJ", "slack", "earer ", "asic "),
)
# Tokens that their services mark as such; a JSON web token; a private key.
TOKENS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|rt|cbt|dt|ptt|ft)-[\w-]{16,}|nvapi-[\w-]{16,}"
    r"|pypi-[\w-]{20,}|npm_[A-Za-z0-9]{30,}|sk-(?=[\w-]*\d)[\w-]{20,}|[sr]k_(?:live|test)_\w{16,}|x(?:ox[a-z]|app)-[\w-]{10,}"
    r"|A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{16,}|dapi[0-9a-f]{32}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|hvs\.[\w-]{16,}|wandb_v1_\w{16,}|dckr_pat_[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
    r"|(?<=hooks\.slack\.com/services/)[\w/]+"
    r"|(?<=[Bb]earer )[\w.~+/-]{16,}=*"
    r"|(?<=[Bb]asic )(?=[A-Za-z+/]*[\d=])[\w+/]{12,}=*"
)
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)", re.DOTALL
)


@functools.cache
def is_secret(name: str) -> bool:
    """Whether the environment variable `name` holds a secret, by its name."""
    return NAMES.search(name) is not None


def is_secret_argument(name: str) -> bool:
    """Whether the argument `name` of a user's code holds a secret, by its name."""
    words = [word.lower() for word in WORDS.findall(name)]
    if words[:1] and words[0] in COUNTS:
        return False
    if SECRET_PARTS.search("".join(words)) or SECRET_WORDS & set(words) or words in (["token"], ["pass"]):
        return True
    return any(owner in OWNERS and word in KEYS for owner, word in zip(words, words[1:], strict=False))


def secret_argument(arguments: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> str | None:
    """The place of a value that looks like a secret, by its name or by itself, such as `cfg.api_key`; None without."""
    return next(_secret_places(arguments, False, False, masker(environ)), None) if arguments else None


def _secret_places(value: Any, is_named: bool, may_be: bool, hide: Callable[[str], str]) -> Iterator[str]:
    """The places in `value` of what is a secret; the name of what holds it says that it is one, or may be one."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            words = WORDS.findall(str(name))
            named, may = is_named or is_secret_argument(str(name)), bool(words) and words[-1].lower() in KEYS
            for place in _secret_places(inner, named, may_be or may, hide):
                yield f"{name}.{place}" if place else str(name)
            if hide(str(name)) != str(name):
                yield hide(str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, inner in enumerate(value):
            for place in _secret_places(inner, is_named, may_be, hide):
                yield f"{index}.{place}" if place else str(index)
    elif value is None or value == "" or (isinstance(value, int | float) and abs(value) < SMALL):
        return
    elif is_named or (may_be and _looks_random(value)) or (isinstance(value, str) and hide(value) != value):
        yield ""


def _looks_random(value: object) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int | float) and abs(value) >= LARGE
    runs = (re.findall(r"[A-Za-z]+|\d+", run) for run in RANDOM_TEXT.findall(value))
    return UUID.search(value) is not None or any(len(parts) > MIN_CHANGES for parts in runs)


def masked(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text with *** for secrets: see `masker`."""
    return masker(environ)(text)


def masker(environ: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """What puts *** for the passwords in addresses, known kinds of tokens, and values of variables with secrets' names.

    Paths are no such values, nor what is shorter than `MIN_LENGTH`.
    """
    hidden = [environ[name] for name in filter(is_secret, environ)]
    long = [value for value in hidden if len(value) >= MIN_LENGTH and not os.path.exists(value)]
    lines = {line.strip() for value in long for line in value.splitlines()}
    lines |= {quote(line, safe="") for line in lines}
    values = sorted((line for line in lines if len(line) >= MIN_LENGTH), key=len, reverse=True)

    def mask(text: str) -> str:
        for value in values:
            text = text.replace(value, MASK)
        text = PRIVATE_KEY.sub(MASK, text) if "PRIVATE KEY" in text else text
        text = ADDRESS.sub(_address, text) if "://" in text else text
        text = TOKENS.sub(MASK, text) if any(mark in text for mark in MARKS) else text
        lower = text.lower()
        if any(word in lower for word in ASSIGNING):
            for pattern in ASSIGNMENTS:
                text = pattern.sub(rf"\1{MASK}", text)
        return text

    return mask


def _address(match: re.Match[str]) -> str:
    user, password = match[1], match[2]
    if password and PORT.match(password):  # a port, and an @ in the path after it
        return match[0]
    is_alone = not password and len(user) >= MIN_LENGTH and WEB.search(match.string, 0, match.start()) is not None
    is_token = is_alone or _looks_random(user)
    shown = MASK if is_token and user not in USERS else user
    return f"{shown}:{MASK}@" if password else f"{shown}@"


def without_secrets(value: T, environ: Mapping[str, str] = os.environ) -> T:
    """JSON or a dataclass with `masked` texts, in mappings and lists too; `value` itself if it has no secret.

    The names of a mapping stay, and the entries `ENUMERATED`.
    """
    hide = masker(environ)
    texts: list[str] = []
    _add_texts([value], texts)
    together = "\n".join(texts)  # one look at all of them: few records hold any
    return value if hide(together) == together else _each_masked(value, hide)


def _add_texts(value: Any, texts: list[str]) -> None:
    for part in _parts(value):
        if type(part) is str:
            texts.append(part)
        elif type(part) not in NUMBERS and not NUMBERS.issuperset(map(type, _parts(part))):
            _add_texts(part, texts)


def _parts(value: Any) -> Collection[Any]:
    if type(value) in (list, tuple):
        return value  # type: ignore[no-any-return]
    if type(value) is dict or isinstance(value, Mapping):  # the first is found sooner
        return value.values()
    return vars(value).values() if dataclasses.is_dataclass(value) else ()


def _each_masked(value: Any, hide: Callable[[str], str]) -> Any:
    if type(value) is str:
        return hide(value)
    if type(value) in (list, tuple):
        return type(value)([_each_masked(each, hide) for each in value])
    if isinstance(value, Mapping):
        return {name: each if name in ENUMERATED else _each_masked(each, hide) for name, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: _each_masked(getattr(value, name), hide) for name in names})
    return value


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
