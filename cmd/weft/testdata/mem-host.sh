#!/bin/bash
# One host's part of a block device on network memory: hosts 1 to 3 are page servers, of which one after the other is
# killed and started anew when all pages have their copies; host 0 serves a volume with two copies of each page by NBD, and has fio and qemu-img verify
# what they have written there.
#
#	MEM_DIR=$(mktemp -d) weft testbed exec --hosts 4 --loss 2% -- cmd/weft/testdata/mem-host.sh
#
# $WEFT is the weft to use, unless it is the one on the path; $MEM_PERIOD are the seconds from one death to the next,
# $MEM_SECONDS how long fio writes and verifies, $MEM_RATE how many blocks it writes in a second (default: as many as it
# can), $MEM_IMAGE_MIB the size of the image that qemu-img writes.
set -eu
weft=${WEFT:-weft}
period=${MEM_PERIOD:-10}
addr() { echo "$WEFT_ADDRS" | cut -d, -f$(($1 + 1)); }
nodes=()
for i in 0 1 2 3; do
	[[ $i == "$WEFT_HOST" ]] || nodes+=(--node "$(addr $i):7720")
done

# serve runs a server again and again: one that was killed has its name back when the others have noticed.
serve() {
	until [[ -e $MEM_DIR/done ]]; do
		"$weft" mem serve --name "mem/$WEFT_HOST" --size 256MiB --listen "$WEFT_ADDR:7720" "${nodes[@]}" &>>"$MEM_DIR/log.$WEFT_HOST" &
		echo $! >"$MEM_DIR/pid.$WEFT_HOST"
		wait $! 2>/dev/null || :
		sleep 0.5
	done
}

# whole says whether all pages have their copies, and each server that was killed is back: one that dies before would be the
# second that is down.
whole() {
	[[ ! -e $MEM_DIR/done ]] || return 0
	tail -n 1 "$MEM_DIR/report" | grep -q "\"lacking\":0,\"servers_up\":3,.*\"restarts\":$(cat "$MEM_DIR/kills" 2>/dev/null | wc -l),"
}

if ((WEFT_HOST > 0)); then
	serve &
	turn=0
	until [[ -e $MEM_DIR/begun || -e $MEM_DIR/done ]]; do sleep 0.1; done
	until [[ -e $MEM_DIR/done ]]; do
		sleep "$period"
		((turn++ % 3 + 1 == WEFT_HOST)) || continue
		until mkdir "$MEM_DIR/turn" 2>/dev/null || [[ -e $MEM_DIR/done ]]; do sleep 0.1; done
		until whole; do sleep 0.1; done
		[[ -e $MEM_DIR/done ]] && break
		echo "$WEFT_HOST" >>"$MEM_DIR/kills"
		kill -9 "$(cat "$MEM_DIR/pid.$WEFT_HOST")" || :
		rmdir "$MEM_DIR/turn"
		echo "mem/$WEFT_HOST is killed"
	done
	kill "$(cat "$MEM_DIR/pid.$WEFT_HOST")" 2>/dev/null || :
	wait
	exit
fi

trap 'touch "$MEM_DIR/done"; kill $device 2>/dev/null; wait 2>/dev/null' EXIT
"$weft" mem nbd --server mem/1 --server mem/2 --server mem/3 --copies 2 --size 64MiB --unix "$MEM_DIR/mem.sock" --report 50ms \
	--listen "$WEFT_ADDR:7720" "${nodes[@]}" >"$MEM_DIR/report" &
device=$!
until [[ -S $MEM_DIR/mem.sock ]]; do
	kill -0 $device 2>/dev/null || exit 1 # it has said why
	sleep 0.1
done
touch "$MEM_DIR/begun"
uri="nbd+unix:///?socket=$MEM_DIR/mem.sock"
fio --name=verify --ioengine=nbd --uri="$uri" --rw=randrw --bs=4k --size=32m --iodepth=8 --verify=crc32c --verify_backlog=256 \
	--verify_fatal=1 --verify_state_save=0 --time_based ${MEM_RATE:+--rate_iops="$MEM_RATE"} --runtime="${MEM_SECONDS:-60}" --output="$MEM_DIR/fio" || { grep -E "err=|error" "$MEM_DIR/fio"; exit 1; }
grep -o 'err= *[0-9]*' "$MEM_DIR/fio"
head -c "${MEM_IMAGE_MIB:-48}M" /dev/urandom >"$MEM_DIR/image"
truncate -s 64M "$MEM_DIR/image"
qemu-img convert -n -f raw -O raw "$MEM_DIR/image" "$uri"
qemu-img compare -f raw -F raw "$MEM_DIR/image" "$uri"
