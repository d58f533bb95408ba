"""What is taken for a secret, and what is not."""

import pytest

from accelbench.engines.registry import SUBSTITUTING
from accelbench.schema.secrets import is_secret, is_secret_argument, kept, masked, tuning

HIDDEN = "q8ZpL2xVw7"


@pytest.mark.parametrize(
    "text",
    [
        "https://me:{}@host/path",
        "https://host/a.npz?x=1&X-Amz-Signature={}",
        "https://host/a.npz?api_key={}'",
        "hf_{0}{0}",
        "cloning https://ghp_{0}{0}@github.com/me/data",
        "Authorization: Bearer {0}{0}",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi{0}.{0}abc",
        "nvapi-{0}{0}",
        "AKIA1234567890ABCDEF",
    ],
)
def test_what_is_marked_as_a_secret_is_hidden_wherever_it_stands(text):
    shown = masked(f"ValueError: {text.format(HIDDEN)} failed", {})
    assert "***" in shown
    assert HIDDEN not in shown
    assert "AKIA" not in shown
    assert shown.startswith("ValueError: ")
    assert masked(shown, {}) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://host:5000/experiments/1/runs/2",
        "mat1 and mat2 shapes cannot be multiplied (32x784 and 28x512)",
        "KeyError: 'layer_token_embedding.weight'",
        "the bearer of this letter",
        "sk-learn, hf_transfer and scikit-learn",
        "--xla_cpu_multi_thread_eigen=false --xla_dump_to=/tmp/x",
        "/usr/lib/libjemalloc.so:/usr/lib/libiomp5.so",
        "s3://bucket/results?versionId=3",
    ],
)
def test_what_is_no_secret_stays(text):
    assert masked(text, {}) == text


def test_the_value_of_a_variable_with_a_secrets_name_is_hidden(tmp_path):
    environ = {"SERVICE_TOKEN": HIDDEN, "HOME": "/home/jane", "SSH_AUTH_SOCK": str(tmp_path), "DB_PASS": "red",
               "PEM_KEY": f"first line\n{HIDDEN}{HIDDEN}", "GIT_AUTHOR_NAME": "Jane Miller"}  # fmt: skip
    assert masked(f"401 for {HIDDEN}, in {tmp_path}", environ) == f"401 for ***, in {tmp_path}"
    assert masked("a red line of Jane Miller in /home/jane", environ) == "a red line of Jane Miller in /home/jane"
    assert masked(f"{HIDDEN}{HIDDEN}", environ) == "***"


@pytest.mark.parametrize("part", ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "AUTH", "CREDENTIAL", "_PASS"])
def test_the_names_of_secrets(part):
    assert is_secret(f"NVIDIA_{part}")
    assert is_secret(f"nvidia_{part.lower()}")


@pytest.mark.parametrize(
    "name",
    [
        "num_tokens",
        "pad_token_id",
        "pad_token",
        "key_dim",
        "num_key_value_heads",
        "tokenizer",
        "author",
        "token",
        "keys",
    ],
)
def test_usual_names_of_arguments_are_none_of_secrets(name):
    assert not is_secret_argument(name)


@pytest.mark.parametrize("name", ["api_key", "apikey", "OPENAI_API_KEY", "access_token", "db_password", "credentials"])
def test_names_of_arguments_that_hold_secrets(name):
    assert is_secret_argument(name)


def test_variables_that_change_the_speed_are_kept():
    wanted = {
        *("OMP_PROC_BIND", "OMP_WAIT_POLICY", "KMP_AFFINITY", "KMP_BLOCKTIME", "GOMP_CPU_AFFINITY"),
        *("MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES", "LD_PRELOAD"),
        *("MALLOC_ARENA_MAX", "MALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "XLA_FLAGS"),
        *("TF_ENABLE_ONEDNN_OPTS", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG"),
        *("NCCL_P2P_DISABLE", "NCCL_ALGO", "TORCHINDUCTOR_MAX_AUTOTUNE", "TIMM_FUSED_ATTN", "LIBTPU_INIT_ARGS"),
        *("ORT_DISABLE_FLASH_ATTENTION", "OV_CPU_MAX_ISA", "JAX_DISABLE_JIT", "TCMALLOC_RELEASE_RATE", "CXX"),
    }
    assert set(kept(dict.fromkeys(wanted, "1"))) == wanted
    assert SUBSTITUTING - {"TF_CPP_MIN_LOG_LEVEL"} <= tuning()  # a live network runs with them
    assert not {name for name in tuning() if is_secret(name)}


@pytest.mark.parametrize(
    "name", ["NVIDIA_API_KEY", "TF_TOKEN_app_terraform_io", "TRITON_AUTH_TOKEN", "TF_VAR_region", "TORCH_HOME", "HOME"]
)
def test_variables_of_others_are_not_kept_whatever_they_begin_with(name):
    assert kept({name: "x", "OMP_PROC_BIND": "1"}) == {"OMP_PROC_BIND": "1"}


def test_a_secret_in_a_value_is_hidden_and_the_rest_still_tells_values_apart():
    environ = {"CC": "sccache --token=q8ZpL2xVw7 gcc", "SCCACHE_TOKEN": "q8ZpL2xVw7"}
    assert kept(environ) == {"CC": "sccache --token=*** gcc"}
    assert kept(environ | {"CC": "sccache --token=q8ZpL2xVw7 clang"}) == {"CC": "sccache --token=*** clang"}
    assert kept({"XLA_FLAGS": "--xla_dump_to=https://me:q8ZpL2xVw7@host/x"}) == {
        "XLA_FLAGS": "--xla_dump_to=https://me:***@host/x"
    }
