"""Whether the installed torch has code for a GPU."""

import re
from collections.abc import Sequence

from accelbench.errors import UnsupportedError


def check_has_code(name: str, capability: tuple[int, int], arch_list: Sequence[str]) -> None:
    """Raises an UnsupportedError if torch has no code for a GPU.

    Args:
        name: of the GPU.
        capability: its compute capability, (major, minor).
        arch_list: what torch was compiled for (`torch.cuda.get_arch_list`): `sm_80` is code for compute capability
            8.0, which runs on 8.x with x >= 0; `compute_80` is PTX, which every newer GPU compiles for itself. With a
            suffix, both are for fewer GPUs: `a` for this capability alone, `f` for its major version.
    """
    if not arch_list or any(_runs_on(arch, capability) for arch in arch_list):
        return
    raise UnsupportedError(
        f"{name} has compute capability {capability[0]}.{capability[1]}, for which the installed torch has no code: it "
        f"has {', '.join(arch_list)}; install a build of torch for this GPU, or use device=cpu"
    )


def _runs_on(arch: str, capability: tuple[int, int]) -> bool:
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
    if match is None:
        return False
    kind, major, minor, suffix = match.groups()
    built_for = int(major), int(minor)
    if suffix == "a":
        return capability == built_for
    return capability >= built_for and (capability[0] == built_for[0] or (kind == "compute" and not suffix))
