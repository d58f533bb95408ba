"""Starts and stops a small cluster on this machine: Slurm with two nodes.

    servers.py up | down

They listen on the loopback only, work in `FOLDER`, and run as daemons until `down`.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path("/var/tmp/accelbench-cluster")
TEMPLATE = Path(__file__).with_name("slurm.conf")
ENVIRONMENT = {"SLURM_CONF": str(FOLDER / "slurm.conf")}  # with which clients find the servers
STATE = FOLDER / "servers.json"  # the processes, and where clients find the servers
PACKAGES = ("slurm-wlm", "munge")
NODES = ("node1", "node2")
PORTS = {"slurmctld": 17817, "node1": 17818, "node2": 17819}
LOOPBACK = "127.0.0.1"
PATIENCE_S = 60.0
DAEMONS = []  # kept, since Python warns of a process that is forgotten while it runs


def up() -> None:
    """Starts what does not run yet, and waits until it answers."""
    _check_system()
    if STATE.exists():
        print("The cluster is up already: `make cluster-down` stops it.")
        return
    FOLDER.mkdir(mode=0o755, exist_ok=True)
    processes = {}
    try:
        _start_munge(processes)
        _start_slurm(processes)
    finally:
        STATE.write_text(json.dumps({"processes": processes, "environment": ENVIRONMENT}, indent=1))
    print(f"Slurm runs (sinfo with SLURM_CONF={FOLDER}/slurm.conf); files: {FOLDER}")


def _start_munge(processes: dict[str, int]) -> None:
    folder = FOLDER / "munge"
    folder.mkdir(mode=0o755, exist_ok=True)
    (folder / "key").write_bytes(secrets.token_bytes(128))
    (folder / "key").chmod(0o400)
    flags = [f"--key-file={folder}/key", f"--socket={folder}/socket", f"--pid-file={folder}/pid"]
    flags += [f"--log-file={folder}/log", f"--seed-file={folder}/seed", "--force", "--foreground"]
    processes["munged"] = _daemon("munged", ["munged", *flags])
    _wait("munge", ["munge", "-n", "-S", f"{folder}/socket"])


def _start_slurm(processes: dict[str, int]) -> None:
    conf = FOLDER / "slurm.conf"
    host = os.uname().nodename.partition(".")[0]
    text = TEMPLATE.read_text().format(host=host, loopback=LOOPBACK, folder=FOLDER, cpus=os.cpu_count(), **PORTS)
    conf.write_text(text)
    for name in ("slurmctld", *(f"slurmd-{node}" for node in NODES)):
        (FOLDER / name).mkdir(mode=0o755, exist_ok=True)
    processes["slurmctld"] = _daemon("slurmctld", ["slurmctld", "-D", "-f", str(conf)])
    for node in NODES:
        processes[node] = _daemon(node, ["slurmd", "-D", "-N", node, "-f", str(conf)])
    idle = f"test $(sinfo --noheader --format=%T --Node | grep -c idle) = {len(NODES)}"
    _wait("Slurm", ["bash", "-c", idle])


def _check_system() -> None:
    """Exits with a message where the cluster can't be started."""
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists():
        sys.exit("make cluster-up: installs and starts Slurm, so it needs root on Debian; nothing was changed")
    programs = ("slurmctld", "slurmd", "munged", "sbatch")
    if any(shutil.which(name) is None for name in programs):
        sys.exit(f"make cluster-up: apt-get install -y {' '.join(PACKAGES)}")


def _daemon(name: str, command: list[str]) -> int:
    with (FOLDER / f"{name}.out").open("ab") as log:
        variables = {**os.environ, **ENVIRONMENT}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=variables, cwd="/"
        )
    DAEMONS.append(process)
    return process.pid


def _wait(name: str, command: list[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    variables = {**os.environ, **ENVIRONMENT}
    while subprocess.run(command, capture_output=True, env=variables, check=False).returncode:
        if time.monotonic() > deadline:
            sys.exit(f"make cluster-up: {name} does not answer; its logs are in {FOLDER}: then `make cluster-down`")
        time.sleep(0.2)


def down() -> None:
    """Ends the servers and removes their files."""
    if STATE.exists():
        for pid in reversed(json.loads(STATE.read_text())["processes"].values()):
            end(pid)
    shutil.rmtree(FOLDER, ignore_errors=True)


def end(pid: int, number: int = signal.SIGTERM) -> None:
    """Ends a daemon, with what it has started, and waits until it is gone."""
    for signal_number in (number, signal.SIGKILL):
        try:
            os.killpg(pid, signal_number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and Path(f"/proc/{pid}").exists():
            time.sleep(0.1)


if __name__ == "__main__":
    {"up": up, "down": down}[sys.argv[1]]()
