#!/bin/sh
# One host's part of a soak between the two hosts of a testbed: a NIC daemon, and a process that exchanges messages with
# the other host's and checks them. Arguments go to weft soak.
#
#	weft testbed exec --hosts 2 --loss 5% -- cmd/weft/testdata/soak-host.sh --messages 5000
#
# $WEFT is the weft to use, unless it is the one on the path; $WEFT_LINK is the link of the daemon, unless it is udp.
set -eu
weft=${WEFT:-weft}

"$weft" nic --link "${WEFT_LINK:-udp}" --listen "$WEFT_ADDR:7700" --node "$WEFT_ADDRS" --log warn &
nic=$!
trap 'kill $nic 2>/dev/null; wait $nic || :' EXIT
until "$weft" stat >/dev/null 2>&1; do
	kill -0 $nic 2>/dev/null || exit 1 # it has said why
	sleep 0.05
done
"$weft" soak --name "soak/$WEFT_HOST" --peer "soak/$((1 - WEFT_HOST))" "$@"
