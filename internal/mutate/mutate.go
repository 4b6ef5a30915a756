// Package mutate names defects that can be switched on, one at a time, to prove that the
// simulator notices them.
//
// A defect is part of a Config and never global. The zero Config has none. Each is a plausible
// mistake at one place of the code, which queries it by name. `weft sim --mutate NAME` must find
// it within a thousand seeds.
package mutate

import (
	"fmt"
	"strings"
)

// Defect is one named mistake. Released software has None.
type Defect uint8

const (
	None                  Defect = iota
	WindowOffByOne               // rel: the receive window is one segment too long, over the oldest
	NoDuplicateCheck             // rel: a repeated segment is delivered again
	OldIncarnation               // rel: frames of an earlier life of the peer are accepted
	WrongSpaceAcked              // rel: acknowledgements count for the other space
	NoRetransmit                 // rel: the hotel forgets one guest in a hundred
	TagIgnored                   // rel: damaged frames are accepted
	EarlyAck                     // rel: a segment beyond a gap is acknowledged cumulatively
	BlackHole                    // rel: long frames are still sent though none of them arrives
	SureBelieved                 // rel: no path is believed to carry less than the first length
	PartsUnfinished              // rel: a segment is delivered when its first part has arrived
	OrderIgnored                 // nic: envelopes are matched as they arrive
	GrantLeak                    // nic: a permission's bytes are kept after the end of its message
	CreditLeak                   // nic: credit is not returned when a staged message is matched
	LostWakeUp                   // nic: a doorbell is rung without waking the sleeper
	HigherWins                   // names: of two claims after a partition, the higher NIC id wins
	StagingNotCharged            // nic: staged messages without credit are not charged
	GrantBeyond                  // nic: bytes are permitted beyond the limit of permissions
	HomeForgets                  // names: a home confirms a name twice, before the first is told
	OtherLifeCountsOn            // names: claims of two lives of a NIC differ by their numbers only
	IdleUnattended               // names: a NIC that nothing depends on is not monitored
	StaleGenerationOK            // nic: messages for a slot's earlier process reach the new one
	CancelLosesMessage           // nic: a cancelled receive that had matched drops its message
	WithdrawKeepsNumber          // nic: the number of a withdrawn message is not skipped
	ChunkOffByOne                // nic: the last piece of a long message is placed one byte early
	BarrierRoundSkipped          // coll: a barrier waits only for its first round
	ContributionLost             // coll: a reduction forgets the vector of its last child
	OperatorWide                 // coll: a reduction of 32-bit elements skips an odd last one
	SignForgotten                // coll: reductions compare unsigned elements as signed ones
	PartLeftWaiting              // coll: a join of a part goes on though the whole lost a member
	LeaveNotTold                 // coll: the others do not learn that a member has left
	SeatsOvertake                // coll: joins and leaves are taken in the order of arrival
	LateForgotten                // coll: a member confirms a broadcast that it must still fetch
	LossNotSpread                // coll: a NIC does not report that a member's NIC is silent
	TorusForgotten               // coll: some NICs use the binomial tree though all have positions
	ConsumedEarly                // nic: a descriptor is returned before its bytes are acknowledged
	PermitUndescribed            // nic: bytes are permitted before the receiver describes a place
	PermitUnready                // nic: bytes are permitted before the sender describes them
	PermitUnasked                // nic: more of a GET is permitted before its arrival is known
	RelayMissForgotten           // nic: a receiver that a relay missed does not get the message
	RelayRenumbered              // nic: such a receiver gets the message with a new number
	LineForgotten                // nic: free staging memory does not wake a waiting message
	DriverBellLost               // nic: a driver command is executed without an answer
	DeleteUnfinished             // nic: a process with sends in flight is deleted in name only
	PaceForgotten                // rel: an endpoint that its pace has held back stays held back
	RunStandsStill               // rel: the rest of a run begins at the run's old beginning
	PlacedUnseen                 // rel: a damaged frame with the expected header is accepted
	StraightOvertakes            // nic: a message by the straight way overtakes unread commands
	RingPassedOver               // nic: a ring without room for a message stays open for later ones
	RingNotReturned              // nic: messages in an abandoned ring are dropped
	RingShownEarly               // nic: a process sees a long message in a ring before its bytes
	RingBelieved                 // nic: a process may claim to have read more than a ring held
	RingReaderAsleep             // nic: one ring message in twenty does not wake its reader
	RingCreditKept               // nic: credit for messages in a ring is not given back
	RingHoleShown                // nic: a process sees a message that was withdrawn on its way
	RingLeftAside                // nic: a ring without room is not posted again after a read
	RunMiscounted                // nic: a run that ends early counts one message too many
	RunBelieved                  // nic: messages of a run may exceed its memory
	StoppedDeaf                  // nic: a queue is no longer read though a command just arrived
	StaleRestarts                // rel: a frame of an ended session restarts the present one
	CommittedBelieved            // rel: a long message is over when its last frame is committed
	PlainUncounted               // rel: a segment without inner header does not use its number
	LeftBehind                   // nic: a leaving process is forgotten before its frames are freed
	RunDeaf                      // nic: new credit does not wake a waiting run
	RunCutShort                  // nic: messages of a run without room in a ring are skipped
	SingleUnseen                 // rel: a damaged frame with the next short message is accepted
	RoomForgotten                // rel: the first packets of a parted run have no room
	TailUnbooked                 // rel: the desk is not booked again for later work
	AckUnbooked                  // rel: a delayed acknowledgement has no timer
	SingleUnattended             // rel: silence after a single record does not count
	MetUnspent                   // nic: a met message uses no credit
	ToldAhead                    // rel: an answer also acknowledges the message after its question
	MetAnyTag                    // nic: a message is met with any tag
	MetCutShort                  // nic: a met message is cut to a short buffer without an error
	LineJumped                   // nic: credit is handed out though a message waits for staging
	RecalledOnce                 // nic: credit is recalled only once
	WaiterNotAdmitted            // nic: a send that waits for credit does not learn of it
	RoomAwaitedInVain            // nic: many messages wait for room that cannot become free
	NamedUnreleased              // nic: messages stay parked when their sender's name arrives
	EarlyLeaves                  // nic: a poll that ended early reports no remaining work
	ParkedDelivered              // nic: parked messages are delivered after a session, despite gaps
	AcceptedParked               // nic: a message is accepted before earlier ones have arrived
	PieceUnpermitted             // nic: pieces of a message are accepted without permission
	CreditUnchecked              // nic: messages are accepted on credit that their NIC lacks
	ReturnUnchecked              // nic: more credit is taken back than was given
	RefundUnchecked              // nic: a withdrawn message returns more credit than is left
	AnswerOfAnother              // nic: a NIC may answer a message to another NIC
	RelaySessionUnchecked        // relay: a message of any session is accepted, without its key
	RelayMacUnchecked            // relay: a message with any MAC is accepted
	RangeWraps                   // nic: the end of a range in a region wraps at 2^64
	EndUntold                    // nic: a process that only received misses a session's end
	LastForgotten                // coll: a leaving member does not report what it has completed
	WaiterForgotten              // coll: free transit memory does not wake a waiting operation
	LegForgotten                 // coll: a leg stays after its peer took no more
	AnyRound                     // coll: a barrier accepts any round for the one that it waits for
	AckAhead                     // coll: a member confirms a broadcast before those below it have
	OtherBlamed                  // coll: an operation fails with the name of a wrong member
	JoinKept                     // coll: an abandoned join keeps its seat
	StrangerHeard                // coll: a NIC speaks for members of other NICs
	SumIgnored                   // coll: a join completes though the others expect other members
	EndForgotten                 // names: a process's end is forgotten if its claim comes later
	EndKept                      // names: other NICs do not learn that a process has ended
	ClaimKept                    // names: a confirming NIC does not learn that a claim was given up
	JudgementForgotten           // names: a name's judgement is forgotten if the claim comes later
	AgeBelieved                  // names: the age of a claim is what its NIC writes
	HearsayUnbounded             // names: every reported NIC is called as long as a live one
	AnswerUnasked                // names: the answer of a NIC that is not the home is accepted
	GatherSkipped                // names: a NIC confirms claims before it has all other tables
	DatagramReplayed             // rel: a frame with a datagram does not use its packet counter
	DatagramMixed                // rel: pieces of equally long datagrams are joined with any ids
	DatagramUnfinished           // rel: a datagram is delivered when its first piece has arrived
	CounterReused                // rel: a retransmitted segment reuses its old packet counter
	RegionServedOn               // nic: GETs from a closed region continue
	RegionFilledOn               // nic: PUTs into a closed region continue
	RegionKeyKept                // nic: a region has the key of the earlier one with its id
	ProgramTwice                 // program: one message in sixteen is handled twice
	ProgramRoomKept              // program: one message in eight keeps its room
	ProgramRoomUnchecked         // program: more is accepted from a NIC than it has room for
	ProgramUnmetered             // program: programs continue after their share of the poll
	ProgramChainForgotten        // program: messages of a NIC may cause one another for ever
	ProgramsOutlive              // program: programs of a NIC stay known after its session
	ReplaceForgets               // program: a replacing program starts with empty data
	GuardOutlives                // program: a filter stays after its program
	GuardForgotten               // program: a second guard of a process disables the first
	FilterFailsOpen              // program: a failing filter passes its message
	DataOverlap                  // program: the data of a program overlap the last word before them
	SegmentUnchecked             // program: a transfer may exceed the data of its segment
	UndoForgotten                // program: a program stays in place after another NIC has failed
	UndoBlind                    // program: the present holder of a number is removed by an undo
	UndoStops                    // program: a restored program stops if its successor was stopped
	MAC1Unchecked                // rel: a Hello with any mac1 is answered
	KeyUnchecked                 // rel: a NIC's id is believed whatever key it has proved
	PlainTaken                   // rel: a plain frame of a sealed session is accepted
	ReplayEarly                  // rel: a packet counter is used before its frame's tag is verified
	RoamsUnasked                 // rel: a session moves to the address of a frame without a probe
	RoamAmplifies                // rel: an unproven address gets a frame of the path's full length
	PhaseEarly                   // rel: the next phase begins before the peer has proved this one
	RenewalHasty                 // rel: fresh keys are used before the peer is known to have them
	CounterRestarts              // rel: packet counters restart with each phase of keys
	FinishOnce                   // rel: the last message of a handshake is sent only once
	HelloBelieved                // rel: a Hello's incarnation is believed before a key is proved
	HelloEnds                    // rel: a Hello ends the open session
	CrossedAnswered              // rel: a crossed Hello is answered whichever id is lower
	GivenUpOfAnother             // nic: a reply is refused if its caller's NIC gave up any call
	ShrinkForgets                // coll: a member leaves the old group before all have the new one
	defects
)

// names has one name per line, in the order of the constants.
var names = [defects]string{
	"none",
	"window-off-by-one",
	"no-duplicate-check",
	"old-incarnation",
	"wrong-space-acked",
	"no-retransmit",
	"tag-ignored",
	"early-ack",
	"black-hole",
	"sure-believed",
	"parts-unfinished",
	"order-ignored",
	"grant-leak",
	"credit-leak",
	"lost-wake-up",
	"higher-wins",
	"staging-not-charged",
	"grant-beyond",
	"home-forgets",
	"other-life-counts-on",
	"idle-unattended",
	"stale-generation-ok",
	"cancel-loses-message",
	"withdraw-keeps-number",
	"chunk-off-by-one",
	"barrier-round-skipped",
	"contribution-lost",
	"operator-wide",
	"sign-forgotten",
	"part-left-waiting",
	"leave-not-told",
	"seats-overtake",
	"late-forgotten",
	"loss-not-spread",
	"torus-forgotten",
	"consumed-early",
	"permit-undescribed",
	"permit-unready",
	"permit-unasked",
	"relay-miss-forgotten",
	"relay-renumbered",
	"line-forgotten",
	"driver-bell-lost",
	"delete-unfinished",
	"pace-forgotten",
	"run-stands-still",
	"placed-unseen",
	"straight-overtakes",
	"ring-passed-over",
	"ring-not-returned",
	"ring-shown-early",
	"ring-believed",
	"ring-reader-asleep",
	"ring-credit-kept",
	"ring-hole-shown",
	"ring-left-aside",
	"run-miscounted",
	"run-believed",
	"stopped-deaf",
	"stale-restarts",
	"committed-believed",
	"plain-uncounted",
	"left-behind",
	"run-deaf",
	"run-cut-short",
	"single-unseen",
	"room-forgotten",
	"tail-unbooked",
	"ack-unbooked",
	"single-unattended",
	"met-unspent",
	"told-ahead",
	"met-any-tag",
	"met-cut-short",
	"line-jumped",
	"recalled-once",
	"waiter-not-admitted",
	"room-awaited-in-vain",
	"named-unreleased",
	"early-leaves",
	"parked-delivered",
	"accepted-parked",
	"piece-unpermitted",
	"credit-unchecked",
	"return-unchecked",
	"refund-unchecked",
	"answer-of-another",
	"relay-session-unchecked",
	"relay-mac-unchecked",
	"range-wraps",
	"end-untold",
	"last-forgotten",
	"waiter-forgotten",
	"leg-forgotten",
	"any-round",
	"ack-ahead",
	"other-blamed",
	"join-kept",
	"stranger-heard",
	"sum-ignored",
	"end-forgotten",
	"end-kept",
	"claim-kept",
	"judgement-forgotten",
	"age-believed",
	"hearsay-unbounded",
	"answer-unasked",
	"gather-skipped",
	"datagram-replayed",
	"datagram-mixed",
	"datagram-unfinished",
	"counter-reused",
	"region-served-on",
	"region-filled-on",
	"region-key-kept",
	"program-twice",
	"program-room-kept",
	"program-room-unchecked",
	"program-unmetered",
	"program-chain-forgotten",
	"programs-outlive",
	"replace-forgets",
	"guard-outlives",
	"guard-forgotten",
	"filter-fails-open",
	"data-overlap",
	"segment-unchecked",
	"undo-forgotten",
	"undo-blind",
	"undo-stops",
	"mac1-unchecked",
	"key-unchecked",
	"plain-taken",
	"replay-early",
	"roams-unasked",
	"roam-amplifies",
	"phase-early",
	"renewal-hasty",
	"counter-restarts",
	"finish-once",
	"hello-believed",
	"hello-ends",
	"crossed-answered",
	"given-up-of-another",
	"shrink-forgets",
}

func (d Defect) String() string {
	if d < defects {
		return names[d]
	}
	if name := rankNames[d]; name != "" {
		return name
	}
	return fmt.Sprintf("defect-%d", uint8(d))
}

// Names returns every defect but None, in a fixed order.
func Names() []string { return append([]string(nil), names[1:]...) }

// Parse returns the defect with a name.
func Parse(name string) (Defect, error) {
	for i, n := range names {
		if n == name {
			return Defect(i), nil
		}
	}
	return None, fmt.Errorf("no defect named %q; there are: %s", name, strings.Join(names[1:], ", "))
}
