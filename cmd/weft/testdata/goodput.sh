#!/bin/sh
# Prints what gets through between the two hosts of a testbed at each of some rates of loss, side by side. Every message
# is checked on the way. It needs root, as any testbed.
#
#	cmd/weft/testdata/goodput.sh [LOSS]…      default: 0.0001% 1% 5% 20%
#
# The first stands for no loss at all. It is not 0 because the program that loses frames also slows the link down, as it
# turns segmentation offload off: only runs that all have it can be compared. $MESSAGES is how many messages go each way.
set -eu
weft=${WEFT:-weft}
here=$(dirname "$0")
[ $# -gt 0 ] || set -- 0.0001% 1% 5% 20%

# field NAME prints the values of a field of the JSON objects in $out.
field() {
	printf '%s\n' "$out" | sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p"
}

echo "    loss   goodput, each way      of the first   sent again"
first=
for loss; do
	out=$("$weft" testbed exec --hosts 2 --loss "$loss" -- "$here/soak-host.sh" --messages "${MESSAGES:-5000}" --json)
	echo "$(field bytes_per_s) $(field segments) $(field segments_sent_again)" | tr '\n' ' ' |
		awk -v loss="$loss" -v first="$first" '{
			both = $1 + $2
			printf "%8s %8.1f %8.1f MB/s %13.0f %% %11.1f %%\n", loss, $1/1e6, $2/1e6, first ? 100*both/first : 100, 100*($5+$6)/($3+$4)
		}'
	[ -n "$first" ] || first=$(field bytes_per_s | awk '{ sum += $1 } END { print sum }')
done
