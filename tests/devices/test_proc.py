import pytest

from accelbench.devices import proc

V1 = "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n"


def tree(root, cgroup, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


TIGHTEST = {
    "a/b/cpu.max": "max 100000\n",
    "a/cpu.max": "150000 100000\n",
    "a/b/memory.max": "8000000000\n",
    "a/memory.max": "max\n",
}
OWN_MOUNT = {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}
OWN_MOUNT["memory/memory.limit_in_bytes"] = "4000000000\n"
UNLIMITED = OWN_MOUNT | {"cpu/cpu.cfs_quota_us": "-1\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}


@pytest.mark.parametrize(
    ("cgroup", "files", "quota", "limit"),
    [
        ("0::/a/b\n", TIGHTEST, 1.5, 8_000_000_000),  # of the group and its ancestors
        (V1, OWN_MOUNT, 2.0, 4_000_000_000),  # a container that sees only its own mount
        (V1, UNLIMITED, None, None),
        ("", {}, None, None),
    ],
)
def test_limits_of_the_cgroup(tmp_path, monkeypatch, cgroup, files, quota, limit):
    monkeypatch.setattr(proc, "ROOT", tree(tmp_path, cgroup, files))
    assert proc.cpu_quota() == (None if quota is None else pytest.approx(quota))
    assert proc.memory_limit_bytes() == limit
    monkeypatch.setattr(proc, "ROOT", tmp_path / "elsewhere")
    assert proc.cpu_quota() is None


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/a\n", {"a/cpu.stat": "usage_usec 9\nthrottled_usec 1500000\n"}),
        ("3:cpu:/\n", {"cpu/cpu.stat": "nr_periods 3\nthrottled_time 1500000000\n"}),
    ],
    ids=["v2", "v1"],
)
def test_time_without_quota_is_read_in_seconds(tmp_path, monkeypatch, cgroup, files):
    monkeypatch.setattr(proc, "ROOT", tree(tmp_path, cgroup, files))
    assert proc.throttled_s(proc.throttle_files()) == pytest.approx(1.5)
    monkeypatch.setattr(proc, "ROOT", tmp_path / "elsewhere")
    assert proc.throttled_s(proc.throttle_files()) is None
