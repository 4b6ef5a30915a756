#!/bin/sh
# A Weft job under Slurm. The script starts one NIC daemon on each node of the allocation, and srun
# starts the ranks. The ranks take their places from the variables of srun.
#
#	sbatch weft-job.sh ./world [ARGUMENT...]
#
# It expects that weft is in the PATH of every node, and that the nodes share the home directory: the
# daemons find their fabric key there. If there is no key, the first daemon makes one. The nodes must
# reach one another over UDP, and over TCP for the gossip, on two ports from 20000 to 39999.
#
#SBATCH --job-name=weft
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --time=00:30:00
set -eu

: "${SLURM_JOB_ID:?is not set; submit this script by sbatch}"
: "${1:?names no program; expected sbatch weft-job.sh PROGRAM [ARGUMENT...]}"

# The NICs of two nodes must not share a key or a socket, so their files are on the disk of each node.
dir=/tmp/weft-$SLURM_JOB_ID
export WEFT_SOCKET="$dir/nic.sock"

# Jobs that share a node have different ports.
port=$((20000 + SLURM_JOB_ID % 10000 * 2))
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# on_each_node runs a command once on every node, beside the ranks.
on_each_node() {
	srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 "$@"
}

# Slurm ends every process of the job when this script ends, also the daemons of a job that it cancels.
on_each_node sh -c 'mkdir -m 700 "$1" && exec weft nic --state-dir "$1" --listen 0.0.0.0:"$2" \
	--gossip-listen 0.0.0.0:"$3" --seed "$4":"$3"' daemon "$dir" "$port" "$((port + 1))" "$first" &

on_each_node sh -c 'n=0
	until weft stat >/dev/null 2>&1; do
		n=$((n + 1))
		[ "$n" -lt 60 ] || { echo "no NIC daemon on $(hostname) after 60 s" >&2; exit 1; }
		sleep 1
	done'

# If one rank fails, the others end too: the operations of their group fail.
status=0
srun --kill-on-bad-exit=1 "$@" || status=$?

on_each_node sh -c 'weft nic stop; rm -rf "$1"' stop "$dir" || true
wait
exit "$status"
