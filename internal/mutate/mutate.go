// Package mutate names defects that can be switched on, one at a time, to prove that the simulator would notice them.
//
// A defect is part of a Config, never global, and the zero Config has none. Each is one plausible mistake at one place
// of the code, which asks for it by name; `weft sim --mutate NAME` must find it within a thousand seeds.
package mutate

import (
	"fmt"
	"strings"
)

// Defect is one named mistake. None is what everybody runs.
type Defect uint8

const (
	None                Defect = iota
	WindowOffByOne             // rel: the receive window takes one segment too many, over the oldest
	NoDuplicateCheck           // rel: a segment that came before is delivered again
	OldIncarnation             // rel: frames of an earlier life of the peer are taken
	WrongSpaceAcked            // rel: acknowledgements are counted for the other space
	NoRetransmit               // rel: the hotel forgets one guest in a hundred
	TagIgnored                 // rel: damaged frames are taken
	EarlyAck                   // rel: a segment beyond a gap is acknowledged cumulatively
	BlackHole                  // rel: long frames are sent on though none of them arrives any more
	SureBelieved               // rel: no path is thought to carry less than what a session begins with
	PartsUnfinished            // rel: a segment is delivered when its first part has come
	OrderIgnored               // nic: envelopes are matched as they arrive
	GrantLeak                  // nic: a permission's bytes are not given back at the end of its message
	CreditLeak                 // nic: credit is not returned when a staged message is matched
	LostWakeUp                 // nic: a doorbell is rung without waking the sleeper
	YoungerWins                // nic: of two claims that meet after a partition the younger wins
	StagingNotCharged          // nic: what waits in staging without credit is not charged to its receiver
	GrantBeyond                // nic: bytes are permitted whatever has been permitted already
	HomeForgets                // nic: a name's home confirms it twice before the first claim is told
	OtherLifeCountsOn          // nic: claims of a NIC's earlier life are told from its present ones by their numbers
	IdleUnattended             // nic: a NIC that nobody wants anything of is not looked after
	StaleGenerationOK          // nic: messages for an earlier process of the slot reach the present one
	CancelLosesMessage         // nic: a cancelled receive that had matched drops its message
	WithdrawKeepsNumber        // nic: a withdrawn message's number is not passed over
	ChunkOffByOne              // nic: the last piece of a long message is placed one byte early
	BarrierRoundSkipped        // nic: only the first round of a barrier is waited for
	ContributionLost           // nic: a reduction forgets the vector of its last child
	LeaveNotTold               // nic: the others do not hear that a member has gone
	SeatsOvertake              // nic: joins and leaves are taken as they arrive
	LateForgotten              // nic: a member that has yet to fetch a broadcast says that it has it
	LossNotSpread              // nic: who finds a member's NIC silent keeps it to itself
	TorusForgotten             // nic: some NICs take the binomial tree though all members have a position
	ConsumedEarly              // nic: a descriptor is given back when its bytes are posted, before they are acknowledged
	PermitUndescribed          // nic: bytes are permitted for which the receiver has described no place yet
	PermitUnready              // nic: bytes are permitted that the sender's process has not described yet
	PermitUnasked              // nic: more of a GET is permitted before it is known to have come
	RelayMissForgotten         // nic: who was not reached by a relay is not sent the message
	RelayRenumbered            // nic: or is sent it with a new number
	LineForgotten              // nic: who waits for staging is not looked at when some comes free
	DriverBellLost             // nic: a driver command is executed without an answer
	DeleteUnfinished           // nic: a process that has sends under way is deleted in name only
	PaceForgotten              // rel: who was held back by its pace once is never let go
	RunStandsStill             // rel: what is left of a run begins where it began before its first packets arrived
	PlacedUnseen               // rel: a damaged frame that says what was expected is taken
	StraightOvertakes          // nic: a message takes the straight way past commands that are not read
	BatchPassedOver            // nic: a message that has no room in a batch leaves it open for those behind
	BatchNotReturned           // nic: messages in a batch that is given up are dropped
	StoppedDeaf                // nic: a queue is listened to no more though a command came just then
	PlainUncounted             // rel: a segment without inner header does not take its number
	LeftBehind                 // nic: a process that leaves is forgotten before what came for it is let go of
	RunCutShort                // nic: the messages of a run that find no room in a batch are passed over
	LoneUnseen                 // rel: a damaged frame is taken if it has one short message, the next
	defects
)

var names = [defects]string{"none", "window-off-by-one", "no-duplicate-check", "old-incarnation", "wrong-space-acked",
	"no-retransmit", "tag-ignored", "early-ack", "black-hole", "sure-believed", "parts-unfinished", "order-ignored", "grant-leak", "credit-leak", "lost-wake-up",
	"younger-wins", "staging-not-charged", "grant-beyond",
	"home-forgets", "other-life-counts-on", "idle-unattended", "stale-generation-ok", "cancel-loses-message", "withdraw-keeps-number", "chunk-off-by-one",
	"barrier-round-skipped", "contribution-lost", "leave-not-told", "seats-overtake",
	"late-forgotten", "loss-not-spread", "torus-forgotten",
	"consumed-early", "permit-undescribed", "permit-unready", "permit-unasked", "relay-miss-forgotten", "relay-renumbered",
	"line-forgotten", "driver-bell-lost", "delete-unfinished", "pace-forgotten", "run-stands-still", "placed-unseen", "straight-overtakes",
	"batch-passed-over", "batch-not-returned", "stopped-deaf", "plain-uncounted", "left-behind", "run-cut-short",
	"lone-unseen"}

func (d Defect) String() string {
	if d < defects {
		return names[d]
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
