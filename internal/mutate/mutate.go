// Package mutate names defects that can be switched on, one at a time, to prove that the simulator
// would notice them.
//
// A defect is part of a Config, never global, and the zero Config has none. Each is one plausible
// mistake at one place of the code, which asks for it by name; `weft sim --mutate NAME` must find
// it within a thousand seeds.
package mutate

import (
	"fmt"
	"strings"
)

// Defect is one named mistake. None is what is shipped.
type Defect uint8

const (
	None                  Defect = iota
	WindowOffByOne               // rel: the receive window takes one segment too many, over the oldest
	NoDuplicateCheck             // rel: a segment that came before is delivered again
	OldIncarnation               // rel: frames of an earlier life of the peer are taken
	WrongSpaceAcked              // rel: acknowledgements are counted for the other space
	NoRetransmit                 // rel: the hotel forgets one guest in a hundred
	TagIgnored                   // rel: damaged frames are taken
	EarlyAck                     // rel: a segment beyond a gap is acknowledged cumulatively
	BlackHole                    // rel: long frames are sent on though none of them arrives any more
	SureBelieved                 // rel: no path is thought to carry less than what a session begins with
	PartsUnfinished              // rel: a segment is delivered when its first part has come
	OrderIgnored                 // nic: envelopes are matched as they arrive
	GrantLeak                    // nic: a permission's bytes are not given back at the end of its message
	CreditLeak                   // nic: credit is not returned when a staged message is matched
	LostWakeUp                   // nic: a doorbell is rung without waking the sleeper
	HigherWins                   // names: of two claims that meet after a partition the one of the NIC with the higher id wins
	StagingNotCharged            // nic: what waits in staging without credit is not charged to its receiver
	GrantBeyond                  // nic: bytes are permitted whatever has been permitted already
	HomeForgets                  // names: a name's home confirms it twice before the first claim is told
	OtherLifeCountsOn            // names: claims of a NIC's earlier life are told from its present ones by their numbers
	IdleUnattended               // names: a NIC that nothing depends on is not looked after
	StaleGenerationOK            // nic: messages for an earlier process of the slot reach the present one
	CancelLosesMessage           // nic: a cancelled receive that had matched drops its message
	WithdrawKeepsNumber          // nic: a withdrawn message's number is not passed over
	ChunkOffByOne                // nic: the last piece of a long message is placed one byte early
	BarrierRoundSkipped          // coll: only the first round of a barrier is waited for
	ContributionLost             // coll: a reduction forgets the vector of its last child
	OperatorWide                 // coll: a reduction of 32-bit elements leaves an odd last one as it is
	SignForgotten                // coll: reductions compare unsigned elements as signed ones
	PartLeftWaiting              // coll: a join of a part of a group goes on though a member of the whole has gone
	LeaveNotTold                 // coll: the others do not hear that a member has gone
	SeatsOvertake                // coll: joins and leaves are taken as they arrive
	LateForgotten                // coll: a member that has yet to fetch a broadcast says that it has it
	LossNotSpread                // coll: a NIC that finds a member's NIC silent keeps it to itself
	TorusForgotten               // coll: some NICs take the binomial tree though all members have a position
	ConsumedEarly                // nic: a descriptor is given back when its bytes are posted, before they are acknowledged
	PermitUndescribed            // nic: bytes are permitted for which the receiver has described no place yet
	PermitUnready                // nic: bytes are permitted that the sender's process has not described yet
	PermitUnasked                // nic: more of a GET is permitted before it is known to have come
	RelayMissForgotten           // nic: a receiver that a relay has not reached is not sent the message
	RelayRenumbered              // nic: or is sent it with a new number
	LineForgotten                // nic: a message that waits for staging is not looked at when some comes free
	DriverBellLost               // nic: a driver command is executed without an answer
	DeleteUnfinished             // nic: a process that has sends under way is deleted in name only
	PaceForgotten                // rel: an endpoint that its pace held back once is never let go
	RunStandsStill               // rel: what is left of a run begins where it began before its first packets arrived
	PlacedUnseen                 // rel: a damaged frame that says what was expected is taken
	StraightOvertakes            // nic: a message takes the straight way past commands that are not read
	RingPassedOver               // nic: a message that has no room in a ring leaves it open for those behind
	RingNotReturned              // nic: messages in a ring that is given up are dropped
	RingShownEarly               // nic: a long message in a ring is shown to its process before its bytes have come
	RingBelieved                 // nic: a process may say that it has read more of a ring than there was
	RingReaderAsleep             // nic: what comes into a ring does not wake its reader, one time in twenty
	RingCreditKept               // nic: credit is not given back for what goes into a ring
	RingHoleShown                // nic: a message that is withdrawn on its way into a ring is shown to its process
	RingLeftAside                // nic: a ring that had no room is not posted again when its process has read
	RunMiscounted                // nic: a run that ends early says that one more message has left
	RunBelieved                  // nic: messages of a run may have more bytes than its memory
	StoppedDeaf                  // nic: a queue is listened to no more though a command came just then
	StaleRestarts                // rel: a frame of a session that is over begins the present one anew
	CommittedBelieved            // rel: a long message over a reliable link is over when its last frame is committed
	PlainUncounted               // rel: a segment without inner header does not take its number
	LeftBehind                   // nic: a process that leaves is forgotten before what came for it is let go of
	RunDeaf                      // nic: a run that waits for credit is not looked at when some comes
	RunCutShort                  // nic: the messages of a run that find no room in a ring are passed over
	SingleUnseen                 // rel: a damaged frame is taken if it has one short message, the next
	RoomForgotten                // rel: the first packets of a run that is parted have no room
	TailUnbooked                 // rel: the desk is not booked anew for what is due later
	AckUnbooked                  // rel: an acknowledgement that may wait has no timer
	SingleUnattended             // rel: the silence of a peer that a single record went to does not count
	MetUnspent                   // nic: a message that is met uses no credit
	ToldAhead                    // rel: an answer acknowledges the message behind its question as well
	MetAnyTag                    // nic: a message is met whatever its tag
	MetCutShort                  // nic: a message is met though the buffer is too short, and nothing said of it
	LineJumped                   // nic: credit is handed out though a message waits for staging
	RecalledOnce                 // nic: credit that was recalled once is not recalled again
	WaiterNotAdmitted            // nic: a send that waits for credit does not hear of it
	RoomAwaitedInVain            // nic: many messages wait for room that cannot come
	NamedUnreleased              // nic: what waits for its sender's name stays parked when that comes
	EarlyLeaves                  // nic: a poll that ended early says that nothing is left to do
	ParkedDelivered              // nic: what is parked when its sender's session ends is delivered, gaps or not
	AcceptedParked               // nic: a message is accepted before those that were sent before it have come
	PieceUnpermitted             // nic: pieces of a message are taken that were not permitted
	CreditUnchecked              // nic: messages are taken on credit that their NIC does not have
	ReturnUnchecked              // nic: more credit is taken back than was handed out
	RefundUnchecked              // nic: a withdrawn message gives back more credit than is left
	AnswerOfAnother              // nic: a NIC may answer what was sent to another
	RelaySessionUnchecked        // relay: a message is taken whatever session it names, though its key is not known
	RelayMacUnchecked            // relay: a message is taken whatever its MAC
	RangeWraps                   // nic: the end of a range in a region is computed past 2^64
	EndUntold                    // nic: a process that has only received is not told that the session has ended
	LastForgotten                // coll: a member that leaves does not say what it has completed
	WaiterForgotten              // coll: an operation that waits for transit memory is not looked at when some comes free
	LegForgotten                 // coll: a leg stays where its peer took no more
	AnyRound                     // coll: a barrier takes any round that it hears of for the one that it waits for
	AckAhead                     // coll: a member says that all below it have a broadcast before they have said so
	OtherBlamed                  // coll: an operation fails because of another member than the one that has gone
	JoinKept                     // coll: a join that is given up keeps its seat
	StrangerHeard                // coll: a NIC speaks for members that are not its own
	SumIgnored                   // coll: a join completes whatever members the others have in mind
	EndForgotten                 // names: the end of a process is not remembered if its claim has yet to come
	EndKept                      // names: the other NICs are not told that a process has ended
	ClaimKept                    // names: a NIC that was asked to confirm a claim is not told that it was given up
	JudgementForgotten           // names: the judgement that a name is another's is forgotten if that claim has yet to come
	AgeBelieved                  // names: a claim is as old as its NIC writes
	HearsayUnbounded             // names: every NIC that a peer tells of is called, for as long as one that is up
	AnswerUnasked                // names: the answer of a NIC that is not the home is taken
	GatherSkipped                // names: a NIC confirms claims before it has the tables of all others
	DatagramReplayed             // rel: a frame with a datagram does not take its packet counter
	DatagramMixed                // rel: pieces of datagrams of one length are put together whatever their ids say
	DatagramUnfinished           // rel: a datagram is handed over when its first piece has come
	CounterReused                // rel: a segment that is sent again has the packet counter of the frame before
	RegionServedOn               // nic: GETs are served on from a region that is closed
	RegionFilledOn               // nic: PUTs go on into a region that is closed
	RegionKeyKept                // nic: a region has the key of the one before with its id
	ProgramTwice                 // program: one message in sixteen is handled twice
	ProgramRoomKept              // program: room for one message in eight is not given back
	ProgramRoomUnchecked         // program: more is taken from a NIC than it has room for
	ProgramUnmetered             // program: programs run on when their share of the poll is used up
	ProgramChainForgotten        // program: messages of a NIC may follow from one another for ever
	ProgramsOutlive              // program: programs of a NIC are known beyond its session
	ReplaceForgets               // program: a program that replaces another begins with empty data
	GuardOutlives                // program: a filter stays when its program has gone
	GuardForgotten               // program: a process may be given a second guard, and the first judges nothing
	FilterFailsOpen              // program: a filter that fails passes its message
	DataOverlap                  // program: the data of a program begin in the last word of those before
	SegmentUnchecked             // program: a transfer may go beyond the data of its segment
	UndoForgotten                // program: what is in its place already is not taken back when another NIC has failed
	UndoBlind                    // program: what has the number by now is taken back, whether it was put there or not
	UndoStops                    // program: a program that is there again is stopped if the one in its place was
	MAC1Unchecked                // rel: a Hello is answered whatever its mac1
	KeyUnchecked                 // rel: a NIC is believed its id whatever key it has proved
	PlainTaken                   // rel: a plain frame of a sealed session is taken
	ReplayEarly                  // rel: a packet counter is taken before the tag of its frame is found good
	RoamsUnasked                 // rel: a session moves to the address that a frame came from without a probe
	RoamAmplifies                // rel: an unproven address is asked by a frame as long as the path's, whatever came from it
	PhaseEarly                   // rel: the next phase of keys begins before the peer has shown that it has this one
	RenewalHasty                 // rel: fresh keys are used before the peer is known to have them
	CounterRestarts              // rel: packet counters begin anew with each phase of keys
	FinishOnce                   // rel: the last message of a handshake is sent once only
	HelloBelieved                // rel: the incarnation in a Hello is believed before its sender has proved a key
	HelloEnds                    // rel: a Hello ends the session that is open
	CrossedAnswered              // rel: a Hello that has crossed ours is answered whoever has the lower id
	GivenUpOfAnother             // nic: a reply is refused if its caller's NIC has given up any call to the process
	ShrinkForgets                // coll: a member that has shrunk a group leaves the old one before all members have joined the new one
	defects
)

// names are in the order of the constants, a line each.
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

// Names lists every defect but None, in a fixed order.
func Names() []string { return append([]string(nil), names[1:]...) }

// Parse finds a defect by name.
func Parse(name string) (Defect, error) {
	for i, n := range names {
		if n == name {
			return Defect(i), nil
		}
	}
	return None, fmt.Errorf("no defect named %q; there are: %s", name, strings.Join(names[1:], ", "))
}
