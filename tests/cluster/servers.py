"""Starts and stops a small cluster on this machine: Slurm with two nodes.

    servers.py up | down

Its daemons listen on the loopback only, and work in `FOLDER`.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path("/var/tmp/accelbench-cluster")
CONF = FOLDER / "slurm.conf"
ENVIRONMENT = {"SLURM_CONF": str(CONF)}  # with which clients find the servers
NODES = ("node1", "node2")
PORTS = {"slurmctld": 17817, "node1": 17818, "node2": 17819}
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
PATIENCE_S = 60.0


def up() -> None:
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists():
        sys.exit("make cluster-up: starts Slurm, so it needs root on Debian; nothing was changed")
    if any(shutil.which(name) is None for name in PROGRAMS):
        sys.exit("make cluster-up: apt-get install -y slurm-wlm munge")
    if FOLDER.exists():
        print("The cluster is up already: `make cluster-down` stops it.")
        return
    names = ["munge", "slurmctld", *(f"slurmd-{node}" for node in NODES)]
    for name in names:
        (FOLDER / name).mkdir(mode=0o755, parents=True)
    key = FOLDER / "munge" / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    munge = [f"--{name}-file={FOLDER}/munge/{name}" for name in ("key", "log", "seed")]
    _start("munged", *munge, f"--pid-file={FOLDER}/munged.pid", f"--socket={FOLDER}/munge/socket", "--force")
    host = os.uname().nodename.partition(".")[0]
    template = Path(__file__).with_name("slurm.conf").read_text()
    CONF.write_text(template.format(host=host, loopback="127.0.0.1", folder=FOLDER, cpus=os.cpu_count(), **PORTS))
    _start("slurmctld")
    for node in NODES:
        _start("slurmd", "-N", node)
    deadline = time.monotonic() + PATIENCE_S
    idle = ["bash", "-c", f"test $(sinfo --noheader --format=%T --Node | grep -c idle) = {len(NODES)}"]
    while subprocess.run(idle, capture_output=True, env=os.environ | ENVIRONMENT).returncode:
        if time.monotonic() > deadline:
            sys.exit(f"make cluster-up: Slurm does not answer; its logs are in {FOLDER}: then `make cluster-down`")
        time.sleep(0.2)
    print(f"Slurm runs (sinfo with SLURM_CONF={CONF}); files: {FOLDER}")


def _start(*command: str) -> None:
    subprocess.run(command, check=True, env=os.environ | ENVIRONMENT, cwd="/")


def down() -> None:
    groups = set()
    for path in FOLDER.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            groups.add(os.getpgid(int(path.read_text())))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, number)
        time.sleep(2.0)
    shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    {"up": up, "down": down}[sys.argv[1]]()
