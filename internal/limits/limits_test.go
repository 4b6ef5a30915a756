package limits_test

import (
	"math/bits"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// Limits depend on one another. Each relation is listed with its reason, so that a change of one
// number that breaks another's assumption fails the test.
func TestLimitsFitOneAnother(t *testing.T) {
	for _, r := range []struct {
		holds  bool
		reason string
	}{
		{limits.Commands >= 2*limits.Contexts, "QNIX-61: N ≥ 2M, so that every context can have its command posted"},
		{limits.Commands > 8, "QNIX-61: N > 8, since the head is published every eight entries"},
		{limits.Commands%8 == 0, "the head is published every eight entries, and must come round to the same places"},
		{limits.ShortMessage == limits.TinyMessage, "what fits a context region goes by the command queue, and nothing else"},
		{limits.TinyMessage == 768, "USNIC-15: tiny_mtu"},
		{limits.Window == 4096, "USNIC-41: the window"},
		{limits.FirstRing <= limits.Window, "a ring starts no larger than it may grow"},
		{limits.ResendsPerPoll <= 16, "retransmissions are at most 16 a poll"},
		{limits.ResendsPerPoll < limits.FirstRing, "a poll's retransmissions leave room for new segments"},

		{limits.FailureTimeout > limits.UnreachableAfter+limits.ProbeEvery+time.Second, "a NIC that seems gone can be asked before it must be"},
		{limits.StagedPatience > 2*limits.UnreachableAfter, "a host whose parent has just found its own parent silent still waits for it"},
		{limits.StagedPlanBytes > limits.StagedChunks*32*4/3+4096, "the plan of the longest file has room for its hashes in base 64"},
		{limits.StagedFileBytes <= limits.StagedCacheBytes, "every file that can be staged fits the cache"},
		{limits.StagedChunkBytes%limits.PageBytes == 0, "chunks lie on pages of their file"},

		{limits.GossipCall < limits.GossipRejoinEvery, "a call that is not answered has ended before the next"},
		{limits.GossipJoinEvery < limits.GossipRejoinEvery, "a NIC that knows no other calls more often than one that does"},

		{limits.AckDelay < limits.LeastLateness, "an acknowledgement held back is not taken for a loss"},
		{limits.LeastLateness < limits.FirstRetransmit, "the first time-out allows for that lateness too"},
		{limits.FirstRetransmit < limits.LongestRetransmit, "the time-out can back off from its start"},
		{4*limits.LongestRetransmit <= limits.UnreachableAfter, "several tries at the longest time-out come before giving up"},
		{4*limits.ProbeEvery <= limits.UnreachableAfter, "a lost probe or two do not make a peer unreachable"},
		{4*limits.HelloEvery <= limits.UnreachableAfter, "a lost hello or two do not make a peer unreachable"},
		{limits.AckDelay == 50*time.Microsecond, "USNIC-48: the delay"},
		{limits.FirstRetransmit == 100*time.Millisecond, "USNIC-45: the retransmission timer"},
		{limits.ProbeEvery == 250*time.Millisecond, "USNIC-61: the ping interval"},

		{limits.Processes >= 128, "QNIX-3: at least 128 processes"},
		{limits.Processes <= limits.DefaultProcesses && limits.DefaultProcesses <= limits.MaxProcesses, "what is made beforehand may be used, and the default does not exceed the most"},
		{limits.DriverCommands > 8 && limits.DriverCommands%8 == 0, "QNIX-A4: D > 8, since the head is published every eight entries"},
		{limits.MaxProcesses <= 1<<16, "a slot has 16 bits on the wire"},
		{limits.Contexts <= 1<<16, "a command names its context in 16 bits"},
		{limits.ShortMessage <= limits.PageBytes, "a context region is within a page"},
		{limits.Descriptors <= limits.PoolPages, "an operation can name pages for all its descriptors"},
		{limits.PoolPages*limits.PageBytes == 1<<20, "the pool is the MiB that its comment says"},

		{limits.TinyMessage < limits.StagedMessage && limits.StagedMessage < limits.UnaskedMessage && limits.UnaskedMessage < limits.EagerMessage, "credit carries more than tiny messages"},
		{2*(limits.EagerMessage+limits.StagedOverhead) <= limits.CreditBytes, "the longest message without permission leaves as much credit to others"},
		{8*limits.EagerMessage <= limits.RoomyCapacity, "a NIC that takes them has room for those of several others"},
		{limits.CreditBytes <= limits.StagingBytes, "credit is backed by staging memory"},
		{700*limits.StagedOverhead+64<<10 <= limits.CreditBytes, "a GRO batch, 64 KiB of 700 messages, fits the credit of one NIC"},
		{limits.LeastPasswordCost <= limits.PasswordCost && limits.PasswordCost <= limits.MostPasswordCost, "a proxy accepts the hashes that weft makes"},
		{limits.ProxyConnections <= limits.MostProxyConnections && limits.NBDClients <= limits.MostNBDClients, "the defaults may be asked for"},
		{limits.Newcomers <= limits.ProxyConnections, "clients that say nothing cost a proxy less than those that it carries"},

		{limits.RequestsPerSource <= limits.ActiveFragments, "every open request has a fragment"},
	} {
		if !r.holds {
			t.Error("broken: " + r.reason)
		}
	}
}

// Slots are found by id mod capacity, or by masking.
func TestCapacitiesOfRingsArePowersOfTwo(t *testing.T) {
	for name, n := range map[string]uint{
		"Window": limits.Window, "FirstRing": limits.FirstRing, "ActiveFragments": limits.ActiveFragments,
		"Commands": limits.Commands, "PageBytes": limits.PageBytes,
	} {
		if bits.OnesCount(n) != 1 {
			t.Errorf("%s = %d is no power of two", name, n)
		}
	}
}
