package vni

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync/atomic"
	"unsafe"

	"github.com/weftnet/weft/internal/limits"
)

// Counter is one of the counts that a NIC publishes (decision 17). Counters only grow, unless
// their name ends in _now.
type Counter int

// The counters, in the order of their words in the page. New ones go to the end of their group: a
// page identifies the list by which it was made. counterTable names and describes each.
const (
	// internal/rel, in segments unless the name says otherwise
	RelSends          Counter = iota // sequenced segments sent for the first time
	RelResendsTimeout                // retransmitted after a timeout
	RelResendsFast                   // retransmitted because of duplicate or selective ACKs
	RelResendsTail                   // tail-loss probes
	RelFragSends                     // segments of whole small fragments
	RelChunkSends                    // segments of large fragments
	RelAckSends                      // frames that carry only an acknowledgement
	RelAckPiggybacked                // segments that carried a due ACK
	RelProbeSends                    // probes
	RelHelloSends                    // hellos and their answers
	RelBytesSent                     // bytes of segments sent for the first time
	RelBytesResent                   // bytes of retransmitted segments
	RelWindowFull                    // sends that found the window full
	RelCreditsFull                   // sends that found the channel without credits
	RelFramesReceived                // frames of any kind that the driver delivered
	RelReceivedNew                   // segments received in order or ahead
	RelReceivedAhead                 // new segments received beyond a gap
	RelReceivedDuplicate
	RelReceivedBeyondWindow
	RelAcksReceived
	RelAcksDuplicate
	RelAcksStale
	RelSegmentsAcked
	RelUpSessions
	RelDownUnreachable
	RelDownRestarted
	RelDownLost
	RelDownGoodbye
	RelPeersNow
	RelInFlightNow // segments in the hotel
	// Times that long frames to a peer were lost repeatedly, so that short ones replaced them.
	RelPathDoubts
	RelPathsNarrowed // times that a path was found to carry shorter frames than both NICs take …
	RelPathsWidened  // … or again all that they take
	RelPartsSent     // frames with parts of segments that are too long for their path
	RelPartsReceived // parts from peers, without the last of each segment
	RelDatagramsSent
	RelDatagramsReceived   // delivered to a service
	RelDatagramsIncomplete // given up because a piece was missing
	RelDatagramsNoRoom     // pieces of datagrams for which there was no room
	// Frames of single records that were built elsewhere and copied to the link's.
	RelSinglesCopied
	RelDatagramsRefused // not sent: too long, no session, or too many waited
	RelCookieSends      // hellos answered by a cookie: their senders must prove their addresses
	RelRekeys           // phases of keys begun
	RelRenewals         // handshakes inside sessions that gave fresh keys
	RelStrays           // valid frames from an address that is not the peer's
	RelRoams            // times that a peer was found to have moved to another address

	// frames dropped, by cause
	DropShort
	DropMagic
	DropVersion
	DropKind
	DropFormat
	DropTag
	DropIndex
	DropAddress
	DropReplay
	DropStaleHello
	DropRefusedHello // a NIC that may not talk to this one
	DropFault        // by a fault hook
	DropMAC          // of another fabric
	DropHandshake    // a handshake message that does not verify
	DropIdentity     // a NIC that has not proved its id
	DropUnsealed     // a plain frame on a sealed link, or a sealed one on a plain link

	// internal/nic
	NICMessagesSent
	NICMessagesReceived
	NICMessagesLocal // between two processes of this NIC; counted in sent and received too
	NICBytesSent
	NICBytesReceived
	NICPuts
	NICGets
	NICPutBytes
	NICGetBytes
	NICCalls
	NICReplies
	// Calls whose caller has stopped waiting, of which the receiver's NIC was told.
	NICCallsGivenUp
	NICRepliesCancelled // replies that were not sent because the caller had given up
	NICUnexpected       // messages staged
	NICUnexpectedBytes  // bytes of staged messages
	// Bytes of outgoing messages, PUTs and GETs, once for each copy: into segments, and into
	// frames.
	NICCopiedOut
	// … and of incoming ones: out of frames, into and out of staging, between processes of this
	// NIC.
	NICCopiedIn
	NICEarly // envelopes parked for an earlier one
	NICTruncated
	NICRequests // permission requests sent
	NICRequestsHeld
	NICPermissionsSent
	NICPermissionsReceived
	NICCreditsSent
	NICCreditsReceived
	NICCreditsRecalled
	NICRefusedProcessGone
	NICRefusedStaleGeneration
	NICRefusedRegion
	NICRefusedKey
	NICRefusedRange
	NICRefusedCancelled
	NICRefusedFiltered
	NICRefusedNoReceiver
	NICFailedUnreachable
	NICFailedNameUnknown
	NICFailedBadArgument
	NICCancels
	NICRefills
	NICCancelsLate // Cancels that found their operation ended
	NICResolves
	NICNameUpdatesSent
	NICNameUpdatesReceived
	NICNameConflicts
	NICNamesRefused   // registrations refused because another process has the name
	NICNamesForbidden // claims refused because the NIC's certificate does not allow the name
	// Records of nodes that were not accepted: nothing vouches for them, or their teller has no
	// credit.
	NICNodesRefused
	NICNodesForgotten   // NICs known by hearsay that never answered
	NICNamesUnconfirmed // names held without an answer of their home
	NICRegistrations
	NICDetaches // processes detached for an impossible state
	NICCommands
	NICWakes
	NICEvents
	NICPolls
	NICIdlePolls
	NICVisits // command queues looked at: one a poll for each active process
	NICProcessesNow
	NICActiveNow // processes on the active list
	NICNamesNow
	NICStagedBytesNow
	NICJoins             // memberships begun
	NICBarriers          // collective operations that succeeded, counted for each member
	NICBroadcasts        //
	NICReductions        //
	NICCollectivesFailed // collective operations that failed
	// Broadcasts that a process must fetch later, since its quota was full when they arrived.
	NICCollectivesLate
	NICSignalsSent     // steps of collective operations without data
	NICPiecesSent      // steps with data
	NICRelays          // copies of multicasts sent to a NIC that passes them on
	NICRelayedMessages // messages received by such relays
	// Receivers that a relay has not reached, so that the source sent to them directly.
	NICRelaysMissed
	// Relays with a wrong MAC for this NIC: a NIC in between has altered or invented them.
	NICRefusedRelay
	NICDuplicates   // messages that a relay had brought before, or that were withdrawn
	NICFiltered     // messages that a filter in front of their receiver dropped
	NICSendsDelayed // sends of a process that its guard delayed
	NICSendsRefused // sends of a process that its guard refused
	NICGroupsNow
	NICTransitBytesNow
	// Times that a process's turns stopped because it had as many rooms as were left.
	NICCrowded
	NICRings         // times that a process rang
	NICRingsEmpty    // rings without a command since the ring before
	NICStraightSends // messages sent by the straight way, without a command
	NICStraightReceives
	NICMet                // straight receives of messages taken from the link itself
	NICDatagramsUnclaimed // datagrams to a service without a claim
	// Datagrams of processes that left, including those to processes of this NIC.
	NICDatagramsSent
	NICDatagramsReceived // datagrams for which a process had posted a receive
	NICDatagramsUnwanted // datagrams without a receive, or to a process that does not exist
	NICPacked            // messages that went into a ring
	NICReturned          // unread messages of a ring that were put back
	NICStalls            // times that a ring had no room for its next message

	// internal/program

	// Messages for programs, and from programs for processes, that were handled.
	NICProgramMessages
	NICProgramSends        // messages that programs have sent …
	NICProgramSendsRefused // … or could not send
	// Messages that found no program, trigger or process, or a program that takes none.
	NICProgramsUnknown
	NICProgramAborts        // activations that failed, without those of filters
	NICProgramsFiltered     // messages that programs have judged as filters
	NICProgramsStopped      // programs stopped because of messages that never end
	NICProgramsLost         // messages to programs that were in flight when a session ended
	NICProgramDatagramsLost // messages to resident programs that could not leave, or found no room
	NICProgramsNoRoom       // messages of programs for processes that had no room for them
	NICSegmentsRefused      // requests of tools about segments that were refused
	NICProgramsNow

	// requests of other NICs to this one
	NICControlRefused // requests for which they lack a role
	NICControlDropped // dropped: their NIC had too many waiting, or they waited too long

	NICRevocations        // accepted revocation lists, each newer than the one before
	NICRevocationsRefused // revocation lists that no authority of this NIC has signed

	// the link driver
	LinkFramesIn
	LinkFramesOut
	LinkBytesIn
	LinkBytesOut
	LinkSystemCalls
	LinkDroppedIn
	LinkDroppedOut
	LinkFramesBatched // sent together with others, by segmentation offload
	LinkFramesCopied  // built elsewhere and copied once more
	// LinkECNMarked counts frames with the mark of a congested router. UDP reads marks only while
	// many frames arrive.
	LinkECNMarked
	LinkCaptureMissed // missing from the file of the capture

	counters
)

func (c Counter) String() string {
	if c >= 0 && c < counters {
		return counterTable[c].Name
	}
	return fmt.Sprintf("counter-%d", int(c))
}

// Names returns the names of the counters in the order of their values. The caller may keep the
// slice.
func Names() []string {
	names := make([]string, counters)
	for i, d := range counterTable {
		names[i] = d.Name
	}
	return names
}

// CounterPageBytes is the size of a counters page: a header line, then a word for each counter, in
// whole pages.
const CounterPageBytes = (lineBytes + 8*int(counters) + limits.PageBytes - 1) / limits.PageBytes * limits.PageBytes

const counterMagic = 0x31_53_54_4e_43_74_66_57 // "WftCNTS1"

// CounterPage holds the counters of one NIC, in memory that other programs may map and read at any
// time without disturbing it. Each counter has one writer. The zero CounterPage discards stores.
//
//	 0  magic          8
//	 8  counters       8   how many
//	16  list           8   hash of their names: a reader of another list must not guess
//	64  words          8 each
type CounterPage struct{ words *[counters]uint64 }

// NewCounterPage formats b with all counters 0. b must be at least CounterPageBytes long and
// aligned to 8 bytes.
func NewCounterPage(b []byte) (CounterPage, error) {
	p, head, err := overlayCounters(b)
	if err != nil {
		return CounterPage{}, err
	}
	clear(b[:CounterPageBytes])
	*head = [3]uint64{counterMagic, uint64(counters), listHash()}
	return p, nil
}

// OpenCounterPage opens a page that another program has formatted. It fails if that program had
// another list of counters.
func OpenCounterPage(b []byte) (CounterPage, error) {
	p, head, err := overlayCounters(b)
	if err != nil {
		return CounterPage{}, err
	}
	if head[0] != counterMagic {
		return CounterPage{}, errors.New("vni: not a counters page")
	}
	if head[1] != uint64(counters) || head[2] != listHash() {
		return CounterPage{}, errors.New("vni: the counters page was made by a program with another list of counters")
	}
	return p, nil
}

func overlayCounters(b []byte) (CounterPage, *[3]uint64, error) {
	if err := aligned(b); err != nil {
		return CounterPage{}, nil, err
	}
	if len(b) < CounterPageBytes {
		return CounterPage{}, nil, fmt.Errorf("vni: counters page of %d bytes, expected %d", len(b), CounterPageBytes)
	}
	return CounterPage{(*[counters]uint64)(unsafe.Pointer(&b[lineBytes]))}, (*[3]uint64)(unsafe.Pointer(&b[0])), nil
}

func listHash() uint64 {
	h := fnv.New64a()
	for _, d := range counterTable {
		io.WriteString(h, d.Name+"\n")
	}
	return h.Sum64()
}

// Store sets a counter.
func (p CounterPage) Store(c Counter, v uint64) {
	if p.words != nil {
		atomic.StoreUint64(&p.words[c], v)
	}
}

// Add adds to a counter.
func (p CounterPage) Add(c Counter, v uint64) {
	if p.words != nil {
		atomic.AddUint64(&p.words[c], v)
	}
}

// Load returns a counter; 0 for the zero CounterPage.
func (p CounterPage) Load(c Counter) uint64 {
	if p.words == nil {
		return 0
	}
	return atomic.LoadUint64(&p.words[c])
}
