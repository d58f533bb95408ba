"""What is taken for a secret, and what is not."""

import html
import json
import re
import shlex
from urllib.parse import quote, quote_plus

import pytest

from accelbench.engines.registry import SUBSTITUTING
from accelbench.schema import secrets
from accelbench.schema.record import NAMING, cleared
from accelbench.schema.serialize import ENUMERATED, plain, without_secrets
from accelbench.schema.vocab import Status
from tests.sinks.samples import cell, measurement
from tests.sinks.samples import record as make_record

HIDDEN = "q8ZpL2xVw7"


@pytest.mark.parametrize(
    "text",
    [
        *("https://me:{}@host/path", "https://host/a.npz?x=1&X-Amz-Signature={}", "https://host/a.npz?api_key={}'"),
        *("hf_{0}{0}", "cloning https://ghp_{0}{0}@github.com/me/data", "Authorization: Bearer {0}{0}"),
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        *("eyJhbGciOiJIUzI1NiJ9.eyJzdWIi{0}.{0}abc", "nvapi-{0}{0}", "AKIA1234567890ABCDEF"),
        *("https://me:{0}/{0}@host/path", "https://{}@host/simple/ and https://host/"),
        *("https://{0}{0}:x-oauth-basic@github.com/me/data", "ssh://jane:{}@host", "https://host/a?auth={}&x=1"),
        *("https://host/a#x;jwt={}", "https://host/a?x-api-key={}", "Authorization: Basic {}="),
        *("'authorization': 'token {}'", "{{'Authorization': 'Bearer {}', 'Accept': '*/*'}}", "X-Api-Key: {}"),
        *("connect(host='a', password='{}', port=3)", "{{'api_key': '{}', 'x': 1}}"),
        *("AccountKey={0}{0}==;EndpointSuffix=core", "aws_secret_access_key = '{0}{0}'", "sk-proj-{0}{0}"),
        *("sk_live_{0}{0}", "xoxb-12345-{}", "https://hooks.slack.com/services/T00/B00/{}", "glpat-{0}{0}"),
        "npm_{0}{0}{0}",
        "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC\n\n{}\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{}",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1-2\n{}\n-----END PGP PRIVATE KEY BLOCK-----",
        *("run --db-password {} --port 3", "curl --token '{}' -x", "HF_TOKEN={} python train.py"),
        "env SECRET_KEY_BASE='{}' serve",
        *("\naws_secret_access_key = {}", '\npassword = a"{}, b', "\ndb_password: a{}", "\n\texport  HF_TOKEN={}"),
        *('Cookie: session=a; id="{}"', "Set-Cookie: sid={}; Path=/", "{{'Cookie': 'a=1; sid={}'}}", "jwt = {}"),
        *('Proxy-Authorization: Digest username="a", response="{}"', '{{\\"Authorization\\": \\"Bearer {}\\"}}'),
        *("-H 'Authorization: Token token={}'", "['--db-password', '{}']", "password=b'{}'", 'accessToken: "{}"'),
        *('password="a\\"{}"', "repr: '{{\\'api_key\\': \\'{}\\'}}'", "https://h/a?sig={}", "ftp://me:a@{}@host"),
    ],
)
def test_what_is_marked_as_a_secret_is_hidden_wherever_it_stands(text):
    shown = secrets.masked(f"ValueError: {text.format(HIDDEN)} failed", {})
    assert "***" in shown
    assert HIDDEN not in shown
    assert "AKIA" not in shown
    assert shown.startswith("ValueError: ")
    assert secrets.masked(shown, {}) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("https://host:5000/experiments/1/runs/2", "mat1 and mat2 shapes cannot be multiplied (32x784 and 28x512)"),
        *("KeyError: 'layer_token_embedding.weight'", "the bearer of this letter"),
        *("sk-learn, hf_transfer and scikit-learn", "--xla_cpu_multi_thread_eigen=false --xla_dump_to=/tmp/x"),
        *("/usr/lib/libjemalloc.so:/usr/lib/libiomp5.so", "s3://bucket/results?versionId=3"),
        "git@github.com:me/data and ssh://git@github.com/me/data",
        "model.args.api_key: looks like a secret, which records and reports would show",
        *("password: it is missing, and so is the key=value", "Basic convolutions and basic auth are asked for"),
        "glue-mnli-and-more-of-the-like, sk-learn-and-everything-beside-it",
        "hf_transfer_is_not_installed and hf_hub_download_url_to_file",
        "got an unexpected keyword argument 'key=64'",
        "num_tokens=128, key_dim=64, max_tokens: 8, ?seq_len=128&top_k=4",
        "0f3a9c5d2b7e4f60a1c8d9e2b3f4a5c6d7e8f901",
        "    token = self.tokens(batch)",
        "unknown token: '<pad>', token='[PAD]', sk-image-0.22.0-py3",
        'File "secrets.py:12", line 3: passes = 4, auth.py:12',
        "the bos-token is missing, TOKENIZERS_PARALLELISM=false, --token-dim 8, --num-tokens 4",
    ],
)
def test_what_is_no_secret_stays(text):
    assert secrets.masked(text, {}) == text


def test_the_value_of_a_variable_with_a_secrets_name_is_hidden(tmp_path):
    environ = {"SERVICE_TOKEN": HIDDEN, "HOME": "/home/jane", "SSH_AUTH_SOCK": str(tmp_path), "DB_PASS": "red",
               "PEM_KEY": f"first line\n{HIDDEN}{HIDDEN}", "GIT_AUTHOR_NAME": "Jane Miller"}  # fmt: skip
    assert secrets.masked(f"401 for {HIDDEN}, in {tmp_path}", environ) == f"401 for ***, in {tmp_path}"
    honest = f"a red line of Jane Miller in /home/jane, {HIDDEN[2:-2]}"  # a part of a secret may be part of a word
    assert secrets.masked(honest, environ) == honest
    assert secrets.masked(f"{HIDDEN}{HIDDEN}", environ) == "***"


ODD = "pä'ss\"w\\\\ör/d & <ü>+9Z漢"


def lower(text):
    return re.sub("%..", lambda match: match[0].lower(), text)


@pytest.mark.parametrize(
    "text",
    [
        *(ODD, repr(ODD), repr(repr(ODD)), ascii(ODD), repr(ODD.encode()), repr([repr({"t": ODD})])),
        *(json.dumps(ODD), json.dumps({"t": ODD}, ensure_ascii=False), json.dumps([json.dumps(ODD)]), html.escape(ODD)),
        *(quote(ODD), quote(ODD, safe=""), quote_plus(ODD), lower(quote(ODD)), quote(quote(ODD)), shlex.quote(ODD)),
    ],
)
def test_the_value_of_a_variable_is_hidden_however_it_is_quoted(text):
    shown = secrets.masked(f"KeyError: {text}", {"FEATURE_API_TOKEN": ODD})
    assert len(shown) < len("KeyError: ") + 25
    assert "***" in shown


@pytest.mark.parametrize("part", ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "AUTH", "CREDENTIAL", "_PASS"])
def test_the_names_of_secrets(part):
    assert secrets.is_secret(f"NVIDIA_{part}")
    assert secrets.is_secret(f"nvidia_{part.lower()}")


HONEST = """num_tokens max_tokens n_tokens tokens token_dim token_type key_dim keys num_keys key_padding_mask keyboard
    author authors tokenizer num_key_value_heads pad_token pad_token_id class_token bos_token eos_token cls_token
    sort_key image_key label_key key passes num_passes second_pass compass bypass monkey keypoints num_secrets
    authenticity_loss wandb hidden_size nTokens keyDim"""
SECRET = """api_key apikey apiKey API-KEY OPENAI_API_KEY access_token access_tokens db_password dbPassword credentials
    wandb_key wandbKey kaggle_key hf_token hub_token token auth basic_auth auth_header oauth pwd db_pwd pass db_pass
    passphrase client_secret aws_access_key_id session_token git_token jwt private_key account_key"""


def test_names_of_arguments_that_hold_secrets():
    assert [name for name in HONEST.split() if secrets.is_secret_argument(name)] == []
    assert [name for name in SECRET.split() if not secrets.is_secret_argument(name)] == []


def test_variables_that_change_the_speed_are_kept():
    wanted = {
        *("OMP_PROC_BIND", "OMP_WAIT_POLICY", "KMP_AFFINITY", "KMP_BLOCKTIME", "GOMP_CPU_AFFINITY"),
        *("MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES", "LD_PRELOAD"),
        *("MALLOC_ARENA_MAX", "MALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "XLA_FLAGS"),
        *("TF_ENABLE_ONEDNN_OPTS", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG"),
        *("NCCL_P2P_DISABLE", "NCCL_ALGO", "TORCHINDUCTOR_MAX_AUTOTUNE", "TIMM_FUSED_ATTN", "LIBTPU_INIT_ARGS"),
        *("ORT_DISABLE_FLASH_ATTENTION", "OV_CPU_MAX_ISA", "JAX_DISABLE_JIT", "TCMALLOC_RELEASE_RATE", "CXX"),
    }
    assert set(secrets.kept(dict.fromkeys(wanted, "1"))) == wanted
    assert SUBSTITUTING - {"TF_CPP_MIN_LOG_LEVEL"} <= secrets.tuning()  # a live network runs with them
    assert not {name for name in secrets.tuning() if secrets.is_secret(name)}


def test_variables_of_others_are_not_kept_whatever_they_begin_with():
    others = ("NVIDIA_API_KEY", "TF_TOKEN_app_terraform_io", "TRITON_AUTH_TOKEN", "TF_VAR_region", "TORCH_HOME", "HOME")
    assert secrets.kept({**dict.fromkeys(others, "x"), "OMP_PROC_BIND": "1"}) == {"OMP_PROC_BIND": "1"}


def test_a_secret_in_a_value_is_hidden_and_the_rest_still_tells_values_apart():
    environ = {"CC": "sccache --token=q8ZpL2xVw7 gcc", "SCCACHE_TOKEN": "q8ZpL2xVw7"}
    assert secrets.kept(environ) == {"CC": "sccache --token=*** gcc"}
    assert secrets.kept(environ | {"CC": "sccache --token=q8ZpL2xVw7 clang"}) == {"CC": "sccache --token=*** clang"}
    flags = "--xla_dump_to=https://me:{}@host/x"
    assert secrets.kept({"XLA_FLAGS": flags.format("q8ZpL2xVw7")}) == {"XLA_FLAGS": flags.format("***")}


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        *(({"api_key": 123456789}, "api_key"), ({"api_key": 271828.5}, "api_key")),
        ({"cfg": {"depth": 3, "api_key": "x"}}, "cfg.api_key"),
        ({"stages": [{"width": 3}, {"login": {"pwd": "x"}}]}, "stages.1.login.pwd"),
        *(({"credentials": {"user": "jane"}}, "credentials.user"), ({"auth": ["jane", "x"]}, "auth.0")),
        *(({"urls": ["https://host", f"https://me:{HIDDEN}@host"]}, "urls.1"), ({"x": f"hf_{HIDDEN}{HIDDEN}"}, "x")),
    ],
)
def test_the_place_of_a_secret_among_arguments(arguments, place):
    assert secrets.secret_argument(arguments, {}) == place


@pytest.mark.parametrize(
    "arguments",
    [
        {"depth": 3, "cfg": {"num_tokens": 128, "key_dim": 64, "keys": ["query", "value"], "ratio": 0.5}},
        {"sort_key": "layer4.conv2", "image_key": "image_224x224", "pad_token": "[PAD]", "eos_token": 128009},
        {"model_key": "vit_base_patch16_224.augreg2_in21k_ft_in1k", "class_token": True, "key": "image"},
        {"api_key": None, "secret": 3, "use_auth": False, "token": "", "auth": True, "author": "Jane"},
        {"max_tokens": 4096},
        {"seed": 1234567890, "widths": [512, 256], "path": "data/images", "url": "https://host/model.onnx"},
    ],
)
def test_honest_arguments_hold_no_secret(arguments):
    assert secrets.secret_argument(arguments, {}) is None


def test_texts_anywhere_in_a_value_are_masked_and_a_clean_value_is_itself():
    clean = {"a": [1.0, 2.0], "b": {"c": ["text", "more"]}, "d": None}
    assert without_secrets(clean, {}) is clean
    spoilt = {"a": [1.0, 2.0, f"{HIDDEN}"], "b": {"c": ["text", f"sent {HIDDEN}"]}, "d": (f"{HIDDEN}",), "stop": HIDDEN}
    assert without_secrets(spoilt, {"SOME_KEY": HIDDEN}) == {
        "a": [1.0, 2.0, "***"], "b": {"c": ["text", "sent ***"]}, "d": ["***"], "stop": HIDDEN,
    }  # fmt: skip
    assert without_secrets([[1, 2], [HIDDEN]], {"SOME_KEY": HIDDEN}) == [[1, 2], ["***"]]


def planted(value, name=""):
    """The JSON with a secret in each text, in one of its forms, but in words of ours."""
    if isinstance(value, dict):
        return {key: planted(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [planted(inner, name) for inner in [*value, "more"]]
    return f"{value} {ODD} {ODD!r} {quote(ODD)}" if isinstance(value, str) and name not in ENUMERATED else value


def test_no_field_of_a_record_keeps_a_secret(monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", ODD)
    values = plain(make_record(status=Status.failed, measurement=measurement(cell()), environment={"variables": {}}))
    values["environment"] = {
        "variables": {"XLA_FLAGS": "x", "OTHER": "x"},
        "versions": {"torch": "2"},
        "git": {"a": "b"},
    }
    texts = {name: part for name, part in values.items() if name not in NAMING}
    shown = json.dumps(cleared(planted(texts)), ensure_ascii=False)
    assert "9Z" in json.dumps(planted(texts))
    assert "9Z" not in shown
    assert "OTHER" not in shown


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["KEY_" * 200_000, "--password-" * 50_000, "api_key" * 50_000, "a:" * 99_999])
def test_a_text_of_a_hostile_record_is_looked_through_in_one_pass(text):
    assert secrets.masked(text, {}) == text
