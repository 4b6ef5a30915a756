package rel

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/seal"
	"github.com/weftnet/weft/internal/wire"
)

// told holds the keys that a NIC has passed to Security.Keys, the newest last.
type told []seal.KeyLog

func (l *told) tell(k seal.KeyLog) {
	k.Key = bytes.Clone(k.Key)
	*l = append(*l, k)
}

// opens returns the told key that opens a frame; nil if none does.
func (l told) opens(t *testing.T, o wire.Outer, frame []byte, outbound bool) *seal.KeyLog {
	t.Helper()
	to := make([]byte, len(frame)-wire.TagLen-clearLen(o))
	for i := len(l) - 1; i >= 0; i-- {
		k := &l[i]
		if k.Outbound != outbound || k.Index != o.Index || k.Phase&1 != 0 != (o.Flags&wire.FlagPhase != 0) {
			continue
		}
		key, err := seal.LoggedKey(k)
		if err != nil {
			t.Fatal(err)
		}
		if key.Open(to, frame, clearLen(o), o.Counter) {
			return k
		}
	}
	return nil
}

func TestTheKeysThatANICTellsOpenEachOfItsSealedFrames(t *testing.T) {
	for _, noAES := range []bool{false, true} {
		w := newWorld(t, 1, weather{delay: 50 * time.Microsecond})
		var keys [2]told
		pace := func(i int) func(*Security) {
			return func(s *Security) {
				fast(s)
				s.NoAES, s.Keys = noAES, keys[i].tell
			}
		}
		a, b := w.add(1, sealAs(1, pace(0))), w.add(2, sealAs(2, pace(1)))
		sent, suites, phases := 0, map[seal.Suite]bool{}, map[uint64]bool{}
		type leaves struct {
			o     wire.Outer
			frame []byte
			key   *seal.KeyLog
			by    int // the NIC that sent it
		}
		var frames []leaves
		w.filter = func(from, to *node, frame []byte) bool {
			o, _, err := wire.ParseOuter(frame)
			if err != nil || o.Kind.OfHandshake() {
				return true
			}
			by := 0
			if from == b {
				by = 1
			}
			k := keys[by].opens(t, o, frame, true)
			if k == nil {
				t.Fatalf("no key that NIC %d has told opens its frame %d, a %v", by+1, o.Counter, o.Kind)
			}
			if o.Counter < k.First {
				t.Errorf("frame %d was sealed by a key whose first frame is %d", o.Counter, k.First)
			}
			sent++
			suites[k.Suite], phases[k.Phase] = true, true
			frames = append(frames, leaves{o, bytes.Clone(frame), k, by})
			return true
		}
		ea, eb := a.open(b), b.open(a)
		ea.Connect(w.now)
		a.wake()
		w.runUntil(5*time.Second, "the session", func() bool { return ea.Up() && eb.Up() })
		for i := range 200 {
			w.runUntil(time.Second, "room", func() bool { return a.frag(ea, wire.Command, fmt.Sprint("there ", i)) })
			w.run(time.Millisecond)
		}
		w.run(time.Second)
		if st := a.m.Stats(); st.Rekeys < 10 || st.Renewals < 1 || len(phases) < 10 {
			t.Errorf("%d phases, %d renewals, keys of %d phases", st.Rekeys, st.Renewals, len(phases))
		}
		if want := map[bool]seal.Suite{false: seal.AES, true: seal.ChaCha}[noAES]; sent < 200 || len(suites) != 1 || !suites[want] {
			t.Errorf("%d frames by suites %v; want %v", sent, suites, want)
		}
		for _, f := range frames {
			k := keys[1-f.by].opens(t, f.o, f.frame, false)
			if k == nil {
				t.Fatalf("no key that NIC %d has told opens frame %d of its peer, a %v", 2-f.by, f.o.Counter, f.o.Kind)
			}
			if !bytes.Equal(k.Key, f.key.Key) || k.Phase != f.key.Phase || k.First < f.key.First {
				t.Errorf("the receiver has told phase %d from frame %d on; the sender said %d from %d on", k.Phase, k.First, f.key.Phase, f.key.First)
			}
		}
		for i, l := range keys {
			seen := map[string]bool{}
			for _, k := range l {
				at := fmt.Sprint(k.Index, k.Outbound, k.Phase)
				if seen[at] {
					t.Errorf("NIC %d has told the key of phase %d twice", i+1, k.Phase)
				}
				seen[at] = true
			}
		}
	}
}
