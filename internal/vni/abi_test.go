package vni

import (
	"fmt"
	"strings"
	"testing"
)

// Programs and daemons of different builds share segments, so these numbers must not change: a new
// meaning takes a new number.
const abiGolden = `
send 1, send-short 2, broadcast 3, broadcast-short 4, multicast 5, multicast-short 6, join-group 7, receive 8, barrier 9
put 32, get 33, cancel 34, resolve 35, reduce 36, leave 37, refill 38, receive-ring 39, send-run 40, send-datagram 41, receive-datagram 42, probe 44
free 0, done 1, used 2
cancel send 0, cancel receive 1
flags 1 2 4 8 16 32, descriptor 1
ring: message 0, whole 1, run 2, source 3, skip 4, void 5
receiver of a multicast 32, member of a roster 48, no pool page -1
`

func TestNumbersThatBuildsShareAreTheOnesThatWerePublished(t *testing.T) {
	var b strings.Builder
	line := func(codes ...fmt.Stringer) {
		for i, c := range codes {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%v %d", c, c)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	line(CodeSend, CodeSendShort, CodeBroadcast, CodeBroadcastShort, CodeMulticast, CodeMulticastShort, CodeJoinGroup, CodeReceive, CodeBarrier)
	line(CodePut, CodeGet, CodeCancel, CodeResolve, CodeReduce, CodeLeave, CodeRefill, CodeReceiveRing, CodeSendRun, CodeSendDatagram, CodeReceiveDatagram, CodeProbe)
	line(Free, Done, Used)
	fmt.Fprintf(&b, "cancel send %d, cancel receive %d\n", CancelSend, CancelReceive)
	fmt.Fprintf(&b, "flags %d %d %d %d %d %d, descriptor %d\n", WantNotify, WantAccept, IsReply, IsCall, AnyTag, Refilled, DescriptorValid)
	fmt.Fprintf(&b, "ring: message %d, whole %d, run %d, source %d, skip %d, void %d\n", ringMessage, ringWhole, ringRun, ringSource, ringSkip, ringVoid)
	fmt.Fprintf(&b, "receiver of a multicast %d, member of a roster %d, no pool page %d\n", ReceiverBytes, RosterBytes, NoPool)
	if b.String() != abiGolden {
		t.Errorf("they are\n%s\nwant\n%s", b.String(), abiGolden)
	}
}
