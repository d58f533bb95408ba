"""Which environment variables a record keeps."""

import pytest

from accelbench.engines.registry import SUBSTITUTING
from accelbench.schema.secrets import is_secret
from accelbench.schema.variables import TUNING, kept


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
    assert SUBSTITUTING - {"TF_CPP_MIN_LOG_LEVEL"} <= TUNING  # a live network runs with them
    assert not {name for name in TUNING if is_secret(name)}


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
