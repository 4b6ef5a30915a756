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
// page identifies the list by which it was made.
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

var counterNames = [counters]string{
	"rel_sends", "rel_resends_timeout", "rel_resends_fast", "rel_resends_tail", "rel_frag_sends",
	"rel_chunk_sends", "rel_ack_sends", "rel_ack_piggybacked", "rel_probe_sends", "rel_hello_sends",
	"rel_bytes_sent", "rel_bytes_resent", "rel_window_full", "rel_credits_full", "rel_frames_received",
	"rel_received_new", "rel_received_ahead", "rel_received_duplicate", "rel_received_beyond_window",
	"rel_acks_received", "rel_acks_duplicate", "rel_acks_stale", "rel_segments_acked", "rel_up_sessions",
	"rel_down_unreachable", "rel_down_restarted", "rel_down_lost", "rel_down_goodbye", "rel_peers_now",
	"rel_in_flight_now", "rel_path_doubts", "rel_paths_narrowed", "rel_paths_widened", "rel_parts_sent",
	"rel_parts_received", "rel_datagrams_sent", "rel_datagrams_received", "rel_datagrams_incomplete",
	"rel_datagrams_no_room", "rel_singles_copied", "rel_datagrams_refused", "rel_cookie_sends",
	"rel_rekeys", "rel_renewals", "rel_strays", "rel_roams",
	"drop_short", "drop_magic", "drop_version", "drop_kind", "drop_format", "drop_tag", "drop_index",
	"drop_address", "drop_replay", "drop_stale_hello", "drop_refused_hello", "drop_fault", "drop_mac",
	"drop_handshake", "drop_identity", "drop_unsealed",
	"nic_messages_sent", "nic_messages_received", "nic_messages_local", "nic_bytes_sent",
	"nic_bytes_received", "nic_puts", "nic_gets", "nic_put_bytes", "nic_get_bytes", "nic_calls",
	"nic_replies", "nic_calls_given_up", "nic_replies_cancelled", "nic_unexpected", "nic_unexpected_bytes",
	"nic_copied_out", "nic_copied_in", "nic_early", "nic_truncated", "nic_requests", "nic_requests_held",
	"nic_permissions_sent", "nic_permissions_received", "nic_credits_sent", "nic_credits_received",
	"nic_credits_recalled", "nic_refused_process_gone", "nic_refused_stale_generation",
	"nic_refused_region", "nic_refused_key", "nic_refused_range", "nic_refused_cancelled",
	"nic_refused_filtered", "nic_refused_no_receiver", "nic_failed_unreachable", "nic_failed_name_unknown",
	"nic_failed_bad_argument", "nic_cancels", "nic_refills", "nic_cancels_late", "nic_resolves",
	"nic_name_updates_sent", "nic_name_updates_received", "nic_name_conflicts", "nic_names_refused",
	"nic_names_forbidden", "nic_nodes_refused", "nic_nodes_forgotten", "nic_names_unconfirmed",
	"nic_registrations", "nic_detaches", "nic_commands", "nic_wakes", "nic_events", "nic_polls",
	"nic_idle_polls", "nic_visits", "nic_processes_now", "nic_active_now", "nic_names_now",
	"nic_staged_bytes_now", "nic_joins", "nic_barriers", "nic_broadcasts", "nic_reductions",
	"nic_collectives_failed", "nic_collectives_late", "nic_signals_sent", "nic_pieces_sent", "nic_relays",
	"nic_relayed_messages", "nic_relays_missed", "nic_refused_relay", "nic_duplicates", "nic_filtered",
	"nic_sends_delayed", "nic_sends_refused", "nic_groups_now", "nic_transit_bytes_now", "nic_crowded",
	"nic_rings", "nic_rings_empty", "nic_straight_sends", "nic_straight_receives", "nic_met",
	"nic_datagrams_unclaimed", "nic_datagrams_sent", "nic_datagrams_received", "nic_datagrams_unwanted",
	"nic_packed", "nic_returned", "nic_stalls", "nic_program_messages", "nic_program_sends",
	"nic_program_sends_refused", "nic_programs_unknown", "nic_program_aborts", "nic_programs_filtered",
	"nic_programs_stopped", "nic_programs_lost", "nic_program_datagrams_lost", "nic_programs_no_room",
	"nic_segments_refused", "nic_programs_now", "nic_control_refused", "nic_control_dropped",
	"nic_revocations", "nic_revocations_refused",
	"link_frames_in", "link_frames_out", "link_bytes_in", "link_bytes_out", "link_system_calls",
	"link_dropped_in", "link_dropped_out", "link_frames_batched", "link_frames_copied", "link_ecn_marked",
	"link_capture_missed",
}

func (c Counter) String() string {
	if c >= 0 && c < counters {
		return counterNames[c]
	}
	return fmt.Sprintf("counter-%d", int(c))
}

// Names returns the names of the counters in the order of their values. The caller may keep the
// slice.
func Names() []string { return append([]string(nil), counterNames[:]...) }

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
	for _, n := range counterNames {
		io.WriteString(h, n+"\n")
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
