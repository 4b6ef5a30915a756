#!/bin/bash
# One host's part of databases on network memory: hosts 1 to 3 are page servers, of which one after the other is killed and
# started anew, as in mem-host.sh. Host 0 has a filesystem on a volume with two copies of each page. There PostgreSQL serves
# pgbench, and sqlite3 makes one transaction after the other. No transaction may fail, and the sums must be right.
#
#	MEM_DIR=$(mktemp -d) weft testbed exec --hosts 4 -- cmd/weft/testdata/db-host.sh
#
# $WEFT is the weft to use, unless it is the one on the path; $MEM_PERIOD are the seconds from one death to the next,
# $MEM_SECONDS how long the databases work, $MEM_RATE how many transactions each of them makes in a second (default: as many
# as it can). It needs root, PostgreSQL, sqlite3, FUSE, loop devices and ext4.
set -eu
export MEM_PERIOD=${MEM_PERIOD:-20}
((WEFT_HOST == 0)) || exec "$(dirname "$0")/mem-host.sh"

weft=${WEFT:-weft}
pg=$(dirname "$(ls -d /usr/lib/postgresql/*/bin/postgres "$(command -v postgres)" 2>/dev/null | tail -n 1)")
as=(setpriv --reuid postgres --regid postgres --clear-groups)
# Mounts are in a namespace of the testbed, and end with it.
far=$MEM_DIR/far disk=/mnt data=/mnt/pg
mkdir "$far"

device='' server=''
end() { # the page servers last: unmounting writes
	[[ -z $server ]] || { kill -INT "$server" && wait "$server"; } 2>/dev/null || :
	umount "$disk" 2>/dev/null || :
	touch "$MEM_DIR/done"
	[[ -z $device ]] || { kill "$device" && wait "$device"; } 2>/dev/null || :
	wait 2>/dev/null || :
}
trap end EXIT

nodes=()
for addr in $(cut -d, -f2- <<<"${WEFT_ADDRS}" | tr , ' '); do nodes+=(--node "$addr:7720"); done
"$weft" mem mount --server mem/1 --server mem/2 --server mem/3 --copies 2 --size 192MiB --report 50ms --listen "$WEFT_ADDR:7720" "${nodes[@]}" "$far" >"$MEM_DIR/report" &
device=$!
until [[ -e $far/memory ]]; do
	kill -0 $device 2>/dev/null || exit 1 # it has said why
	sleep 0.1
done
mkfs.ext4 -q -F "$far/memory"
mount -o loop "$far/memory" "$disk"
mkdir "$data"
chown postgres: "$data"
"${as[@]}" "$pg/initdb" -D "$data" -U weft -A trust --no-instructions >"$MEM_DIR/initdb"
"${as[@]}" "$pg/postgres" -D "$data" -h '' -c unix_socket_directories="$data" -c min_wal_size=32MB -c max_wal_size=64MB -c shared_buffers=16MB \
	-c checkpoint_timeout=30s >"$MEM_DIR/postgres" 2>&1 &
server=$!
export PGHOST=$data PGUSER=weft PGDATABASE=postgres
until psql -c 'select 1' >/dev/null 2>&1; do
	kill -0 $server 2>/dev/null || { cat "$MEM_DIR/postgres"; exit 1; }
	sleep 0.1
done
pgbench -q -i -s 1 2>"$MEM_DIR/pgbench"
sqlite3 "$disk/lite" 'create table account (id integer primary key, n integer); insert into account values (1, 0), (2, 0); create table log (i integer);'
touch "$MEM_DIR/begun"

pgbench -n -c 2 ${MEM_RATE:+-R "$MEM_RATE"} -T "${MEM_SECONDS:-300}" --failures-detailed >>"$MEM_DIR/pgbench" 2>&1 &
bench=$!
made=0
while kill -0 $bench 2>/dev/null; do
	sqlite3 "$disk/lite" "begin immediate; update account set n = n - 1 where id = 1; update account set n = n + 1 where id = 2; insert into log values ($made); commit;" ||
		{ echo "sqlite: transaction $made failed"; exit 1; }
	made=$((made + 1))
	[[ -z ${MEM_RATE-} ]] || sleep "$(awk "BEGIN { print 1 / $MEM_RATE }")"
done
wait $bench || { tail "$MEM_DIR/pgbench" "$MEM_DIR/postgres"; exit 1; }
grep -E 'number of transactions actually processed|number of failed transactions' "$MEM_DIR/pgbench"

# Each transaction of pgbench adds one number to an account, a teller and a branch, and writes it down.
processed=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$MEM_DIR/pgbench")
sums=$(psql -qtA -c "select count(*) = $processed and sum(delta) = (select sum(abalance) from pgbench_accounts) and sum(delta) = (select sum(tbalance) from pgbench_tellers)
	and sum(delta) = (select sum(bbalance) from pgbench_branches) from pgbench_history")
[[ $sums == t ]] || { echo "PostgreSQL: the sums differ: $sums"; exit 1; }
found=$(sqlite3 "$disk/lite" "pragma integrity_check; select count(*), count(distinct i) from log; select n from account order by id;" | tr '\n' ' ')
[[ $found == "ok $made|$made -$made $made " ]] || { echo "sqlite: $made transactions were made; found: $found"; exit 1; }
echo "sqlite: $made transactions, and all are there"

kill -INT "$server"
wait "$server"
server=''
umount "$disk"
fsck.ext4 -fn "$far/memory" >"$MEM_DIR/fsck" 2>&1 || { cat "$MEM_DIR/fsck"; exit 1; }
echo "PostgreSQL: the sums are right, and the filesystem is clean"
