"""The limits that a container or a service manager puts on this process."""

from collections.abc import Iterator, Sequence
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPU time per wall time that the cgroup allows, in cores, such as 1.5; None without a limit.

    Read from `cpu.max` (cgroup v2) or `cpu.cfs_quota_us` (v1), the tightest of the group and its ancestors
    (Linux kernel, Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst).
    """
    quotas = []
    for folder in _folders(root, "cpu"):
        words = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        if len(words) == 2 and words[0] not in ("max", "-1"):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """The memory that the cgroup and its ancestors allow; None without a limit."""
    limits = []
    for folder in _folders(root, "memory"):
        words = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
        # v1 says "no limit" with the largest multiple of the page size that fits into 63 bits.
        if words and words[0] != "max" and int(words[0]) < 2**62:
            limits.append(int(words[0]))
    return min(limits, default=None)


def throttle_files(root: Path = Path("/")) -> list[Path]:
    """The files of the group and its ancestors that count for how long the quota stopped its processes.

    To be found once: looking for them takes longer than reading them.
    """
    files = [folder / "cpu.stat" for folder in _folders(root, "cpu")]
    return [file for file in files if _throttled_s(file) is not None]


def throttled_s(files: Sequence[Path]) -> float | None:
    """Seconds for which the quota has stopped the group so far; None if no file of `throttle_files` says."""
    return max((seconds for file in files if (seconds := _throttled_s(file)) is not None), default=None)


def _throttled_s(file: Path) -> float | None:
    words = _words(file)
    counts = dict(zip(words[::2], words[1::2], strict=False))
    for name, unit in (("throttled_usec", 1e-6), ("throttled_time", 1e-9)):
        if name in counts:
            return int(counts[name]) * unit
    return None


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's cgroup and of its ancestors, for `controller`.

    In a container /proc/self/cgroup may give the host's path of the group, which does not exist here. Then only its
    ancestors are found, such as the root of the mount.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        group = Path(path.lstrip("/"))
        yield from (mount / folder for folder in [group, *group.parents])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
