from pathlib import Path

import pytest

from accelbench.devices import cgroup


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_no_cgroups_at_all_is_no_limit(tmp_path):
    assert cgroup.cpu_quota(tmp_path) is None
    assert cgroup.memory_limit_bytes(tmp_path) is None


def test_v2_takes_the_tightest_of_the_group_and_its_ancestors(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/a/b/memory.max": "8000000000\n",
            "sys/fs/cgroup/a/memory.max": "max\n",
        },
    )
    assert cgroup.cpu_quota(root) == pytest.approx(1.5)
    assert cgroup.memory_limit_bytes(root) == 8_000_000_000


def test_a_container_that_sees_only_its_own_mount(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "4000000000\n",
        },
    )
    assert cgroup.cpu_quota(root) == pytest.approx(2.0)
    assert cgroup.memory_limit_bytes(root) == 4_000_000_000


def test_v1_without_limits(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert cgroup.cpu_quota(root) is None
    assert cgroup.memory_limit_bytes(root) is None


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.stat": "usage_usec 9\nthrottled_usec 1500000\n"},
        {"proc/self/cgroup": "3:cpu:/\n", "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 3\nthrottled_time 1500000000\n"},
    ],
    ids=["v2", "v1"],
)
def test_time_without_quota_is_read_in_seconds(tmp_path, files):
    assert cgroup.throttled_s(cgroup.throttle_files(tree(tmp_path, files))) == pytest.approx(1.5)
    assert cgroup.throttled_s(cgroup.throttle_files(tmp_path / "elsewhere")) is None
