"""What is taken for a secret, and what is not."""

import json
import shlex
from urllib.parse import quote

import pytest

from accelbench.engines.registry import SUBSTITUTING
from accelbench.schema import secrets
from accelbench.schema.serialize import plain, without_secrets
from fakes import make_measurement, make_record

HIDDEN = "q8ZpL2xVw7"
ODD = "9Z;%'\"\\/+é<& b"  # its quoted forms differ from it


@pytest.mark.parametrize(
    "text",
    [
        *("https://me:{}@host/path", "ssh://jane:{}@host", "https://me:{0}/{0}@host/path", "ftp://me:a@{}@host"),
        *("https://{}@host/simple/ and https://host/", "cloning https://{0}{0}@github.com/me/data"),
        *("https://host/a.npz?x=1&X-Amz-Signature={}", "https://host/a.npz?api_key={}'", "https://h/a?sig={}"),
    ],
)
def test_a_password_or_a_token_in_an_address_is_hidden(text):
    shown = secrets.masked(f"ValueError: {text.format(HIDDEN)} failed")
    assert (HIDDEN in shown, "***" in shown, shown.startswith("ValueError: ")) == (False, True, True)
    assert secrets.masked(shown) == shown


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        *("https://host:5000/experiments/1/runs/2", "mat1 and mat2 shapes cannot be multiplied (32x784 and 28x512)"),
        *("KeyError: 'layer_token_embedding.weight'", "s3://bucket/results?versionId=3", "?seq_len=128&top_k=4"),
        *("git@github.com:me/data and ssh://git@github.com/me/data", "0f3a9c5d2b7e4f60a1c8d9e2b3f4a5c6d7e8f901"),
        *("://" * 200_000, "https://" + "a" * 500_000, "?key" * 100_000, "?a=" * 99_999),  # looked through in one pass
    ],
)
def test_what_is_no_secret_stays(text):
    assert secrets.masked(text) == text


def test_the_value_of_a_variable_with_a_secrets_name_is_hidden_however_it_is_quoted(tmp_path):
    environ = {"SERVICE_TOKEN": ODD, "SSH_AUTH_SOCK": str(tmp_path), "DB_PASS": "red", "HOME": "/home/jane"}
    hide = secrets.masker(environ | {"PRIVATE_KEY": f"first line\n{HIDDEN}\n"})
    quoted = (quote(ODD), quote(ODD, safe=""), json.dumps(ODD), json.dumps(ODD, ensure_ascii=False))
    for form in (ODD, repr(ODD), shlex.join([ODD]), *quoted, ODD.replace("%", "%%")):
        shown = hide(f"sent {form}, and {HIDDEN}")
        assert ("9Z" in shown, HIDDEN in shown) == (False, False)
    text = f"red {tmp_path} /home/jane"  # short, a path, and no secret
    assert hide(text) == text


HONEST = """num_tokens tokens token_type key_dim num_keys key_padding_mask author tokenizer num_key_value_heads
    pad_token_id cls_token sort_key key num_passes second_pass compass bypass keypoints num_secrets authenticity_loss"""
SECRET = """apikey apiKey API-KEY OPENAI_API_KEY access_tokens dbPassword credentials wandbKey hf_token token auth
    auth_header oauth db_pwd pass passphrase client_secret aws_access_key_id jwt private_key"""


def test_variables_that_change_the_speed_are_kept_and_no_others():
    wanted = {
        *("OMP_PROC_BIND", "KMP_AFFINITY", "GOMP_CPU_AFFINITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA"),
        *("ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "XLA_FLAGS"),
    }
    others = ("NVIDIA_API_KEY", "TF_TOKEN_app_terraform_io", "TRITON_AUTH_TOKEN", "TF_VAR_region", "TORCH_HOME", "HOME")
    assert set(secrets.kept(dict.fromkeys([*wanted, *others], "1"))) == wanted
    assert SUBSTITUTING - {"TF_CPP_MIN_LOG_LEVEL"} <= secrets.tuning()  # a live network runs with them
    assert not {name for name in secrets.tuning() if secrets.VARIABLE.search(name)}
    # A secret in a value is hidden, and the rest still tells values apart.
    environ = {"CC": f"sccache --token={HIDDEN} gcc", "SCCACHE_TOKEN": HIDDEN}
    assert secrets.kept(environ) == {"CC": "sccache --token=*** gcc"}
    flags = "--xla_dump_to=https://me:{}@host/x"
    assert secrets.kept({"XLA_FLAGS": flags.format(HIDDEN)}) == {"XLA_FLAGS": flags.format("***")}


@pytest.mark.parametrize(
    ("arguments", "is_secret"),
    [
        *(({name: "x"}, True) for name in SECRET.split()),
        (dict.fromkeys(HONEST.split(), "x"), False),
        ({"api_key": 271828.5}, True),
        ({"cfg": {"depth": 3, "api_key": "x"}}, True),
        *(({"credentials": {"user": "jane"}}, True), ({"auth": ["jane", "x"]}, True)),
        ({"urls": ["https://host", f"https://me:{HIDDEN}@host"]}, True),
        ({"cfg": {"num_tokens": 128, "key_dim": 64, "keys": ["query", "value"], "ratio": 0.5}}, False),
        ({"sort_key": "layer4.conv2", "pad_token": "[PAD]", "eos_token": 128009, "max_tokens": 4096}, False),
        ({"api_key": None, "secret": 3, "use_auth": False, "token": "", "auth": True, "author": "Jane"}, False),
        ({"seed": 1234567890, "path": "data/images", "urls": ["https://host:80", "me@host"]}, False),
    ],
)
def test_an_argument_with_a_secret_is_named(arguments, is_secret):
    assert secrets.secret_argument({"depth": 3} | arguments) == (next(iter(arguments)) if is_secret else None)


def test_no_field_of_a_record_keeps_a_secret(monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", ODD)
    environment = {"variables": {"XLA_FLAGS": quote(ODD)}, "versions": {"torch": ODD}, "git": {"branch": ODD}}
    measured = make_measurement(warnings=[f"sent {ODD!r}"], device_name=ODD)
    values = plain(make_record(measurement=measured, environment=environment, reason=f"lost {ODD}"))
    assert json.dumps(values).count("9Z") == 6
    assert "9Z" not in json.dumps(without_secrets(values), ensure_ascii=False)
