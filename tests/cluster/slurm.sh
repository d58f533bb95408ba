#!/bin/bash
# Starts or stops a small cluster on this machine: Slurm with two nodes, which listen on the loopback only.
#     slurm.sh up | down
set -eu
folder=/var/tmp/accelbench-cluster
export SLURM_CONF=$folder/slurm.conf

fail() {
    echo "make cluster-up: $1" >&2
    exit 1
}

up() {
    [ "$(id -u)" = 0 ] && [ -e /etc/debian_version ] || fail "starts Slurm, so it needs root on Debian; nothing was changed"
    for program in slurmctld slurmd munged sbatch; do
        command -v $program > /dev/null || fail "apt-get install -y slurm-wlm munge"
    done
    if [ -e $folder ]; then
        echo "The cluster is up already: \`make cluster-down\` stops it."
        exit
    fi
    mkdir -p $folder/{munge,slurmctld,slurmd-node1,slurmd-node2}
    (umask 077; head -c 128 /dev/urandom > $folder/munge/key)
    munged --force --pid-file=$folder/munged.pid --socket=$folder/munge/socket \
        --key-file=$folder/munge/key --log-file=$folder/munge/log --seed-file=$folder/munge/seed
    sed "s|{host}|$(uname -n | cut -d. -f1)|g; s|{folder}|$folder|; s|{cpus}|$(getconf _NPROCESSORS_ONLN)|" \
        "$(dirname "$0")/slurm.conf" > $SLURM_CONF
    slurmctld
    slurmd -N node1
    slurmd -N node2
    for _ in {1..300}; do
        [ "$(sinfo --noheader --format=%T --Node | grep -c idle)" = 2 ] && break
        sleep 0.2
    done 2> /dev/null
    sinfo || fail "Slurm does not answer; its logs are in $folder: then \`make cluster-down\`"
    echo "Slurm runs (sinfo with SLURM_CONF=$SLURM_CONF); files: $folder"
}

# Ends the daemons, with what they have started, and removes their files.
down() {
    pids=$(cat $folder/*.pid 2> /dev/null) || true
    groups=$(for pid in $pids; do ps -o pgid= "$pid" || true; done)
    for signal in TERM KILL; do
        for group in $groups; do kill -$signal -- "-$group" 2> /dev/null || true; done
        [ -z "$groups" ] || sleep 2
    done
    rm -rf $folder
}

"$1"
