package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/clock"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/nic"
	"github.com/weftnet/weft/internal/proc"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/trust"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/pdl"
)

// A watched daemon is one whose control process and log a test can reach.
type watched struct {
	*Daemon
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *watched) says(words ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.SplitSeq(w.text.String(), "\n") {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return true
		}
	}
	return false
}

// count returns a counter of the daemon.
func (w *watched) count(c vni.Counter) (n uint64) {
	w.loop.Do(func(clock.Time) { n = w.engine.Count(c) })
	return n
}

// startWatched starts daemons that all know the first. change may change their configurations.
func startWatched(t *testing.T, n int, change func(i int, c *Config)) (all []*watched) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		for _, w := range all {
			w.loop.Do(w.engine.Close)
			w.control.close()
		}
		cancel()
		running.Wait()
		for _, w := range all {
			if err := w.close(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range n {
		c := Config{Socket: filepath.Join(dir, fmt.Sprintf("%d.sock", i)), Listen: "127.0.0.1:0", UnreachableAfter: Duration(time.Minute)}
		if i > 0 {
			c.Nodes = []file.Entry{{Address: all[0].Addr().String()}}
		}
		change(i, &c)
		if i == 0 {
			c.Grants = make(map[string][]string)
			for k := range n {
				dir := filepath.Join(dir, fmt.Sprintf("%d.state", k))
				key, err := newStaticKey(dir)
				if err != nil {
					t.Fatal(err)
				}
				c.Grants[key.Public().ID().String()] = []string{"observe"}
			}
		}
		w := &watched{}
		d, err := New(c, w)
		if err != nil {
			t.Fatal(err)
		}
		w.Daemon = d
		running.Go(func() { d.loop.Run(ctx) })
		if d.control, err = newControl(ctx, d); err != nil {
			t.Fatal(err)
		}
		d.control.serve(ctx, &running)
		all = append(all, w)
	}
	for _, w := range all[1:] {
		eventually(t, "a session with the first daemon", func() bool { return w.control.knows(uint64(all[0].id)) })
	}
	return all
}

// newStaticKey makes the state directory of a daemon, and its static key.
func newStaticKey(dir string) (trust.PrivateKey, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return trust.PrivateKey{}, err
	}
	return fabric.StaticKey(dir)
}

func unchanged(int, *Config) {}

// ask sends any bytes to the control process of another daemon, as its own control process would.
func (w *watched) ask(ctx context.Context, to *watched, request string) (*ctl.Reply, error) {
	buf := make([]byte, ctl.MaxMessage)
	m, err := w.control.p.Call(ctx, proc.Dest{NIC: uint64(to.id), Slot: 0, Gen: nic.ControlGeneration}, 0, buf, []byte(request))
	if err != nil {
		return nil, err
	}
	return ctl.DecodeReply(buf[:m.Len])
}

// This attack worked once: a NIC wrote the number of a user into its request, and was believed.
func TestANICThatNamesAnotherUserInItsRequestLoadsNothing(t *testing.T) {
	all := startWatched(t, 2, unchanged)
	victim, attacker := all[0], all[1]
	m, err := pdl.Compile("p", []byte("PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN DROP END; END;"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := json.Marshal(m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	refused := uint64(0)
	for _, who := range []string{`"uid":0`, fmt.Sprintf(`"uid":%d`, 1001), `"uid":0,"user":"root"`, `"user":"root"`, `"user":"alice"`, `"user":""`, `"user":"../root"`} {
		for _, do := range []string{
			fmt.Sprintf(`"do":"put","total":%d,"bytes":%s`, len(m.Encode()), module),
			`"do":"prepare","key":"1","guards":"tenant/0","trigger":1`, `"do":"unload","id":1`, `"do":"send","id":1,"trigger":1`,
		} {
			request := fmt.Sprintf(`{"version":%d,"op":"program","program":{%s,%s}}`, ctl.Version, do, who)
			_, err := attacker.ask(t.Context(), victim, request)
			named := strings.HasPrefix(who, `"user":"root"`) || who == `"user":"alice"`
			if named && (!errors.Is(err, ctl.ErrRefused) || !strings.Contains(err.Error(), "weft fabric grant "+attacker.id.String()+" program=")) ||
				!named && !errors.Is(err, ctl.ErrBadRequest) {
				t.Errorf("%s: %v", request, err)
			}
			if named {
				refused++
			}
		}
	}
	if n := victim.count(vni.NICControlRefused); n != refused {
		t.Errorf("%d refusals are counted; want %d", n, refused)
	}
	if !victim.says("level=WARN", "a request of another NIC is refused", "nic="+attacker.id.String(), "what=program") {
		t.Error("the log does not tell of the refusals")
	}
	victim.loop.Do(func(clock.Time) {
		if p := victim.engine.Programs(); len(p.List()) != 0 {
			t.Errorf("programs are loaded: %v", p.List())
		}
	})
}

// held returns how many servers answer a NIC, and how many of its requests wait.
func (k *desk) held(nic uint64) (serving, waiting int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.queues[nic]; q != nil {
		return q.serving, len(q.requests)
	}
	return 0, 0
}

// From a review: a peer that took no answers held all four servers, for 2 s each. Here, while it
// does so, another peer is answered.
func TestAPeerThatTakesNoAnswersLeavesServersForOthers(t *testing.T) {
	all := startWatched(t, 3, func(i int, c *Config) {
		if i == 1 { // so that a few answers use up its unsolicited credit
			c.StagingBytes = limits.LeastStagingBytes
		}
	})
	victim, attacker, honest := all[0], all[1], all[2]
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var answered atomic.Int64
	defer asking.Wait()
	defer cancel()
	for range limits.ControlWaiting {
		asking.Go(func() {
			for ctx.Err() == nil {
				if _, err := attacker.ask(ctx, victim, fmt.Sprintf(`{"version":%d,"op":"stat"}`, ctl.Version)); err == nil {
					answered.Add(1)
				}
			}
		})
	}
	for end := time.Now().Add(time.Minute); ; {
		if time.Now().After(end) {
			t.Fatal("no answer came while the attacker held servers")
		}
		now := answered.Load()
		eventually(t, "answers that the attacker takes", func() bool { return answered.Load() > now+100 })
		release := make(chan struct{})
		frozen := make(chan struct{})
		asking.Go(func() { // its NIC stays up, and takes nothing
			attacker.loop.Do(func(clock.Time) { close(frozen); <-release })
		})
		<-frozen
		held := false
		for end := time.Now().Add(time.Second); !held && time.Now().Before(end); time.Sleep(time.Millisecond) {
			serving, _ := victim.control.desk.held(uint64(attacker.id))
			held = serving == controlServersPerPeer
		}
		_, err := honest.ask(t.Context(), victim, fmt.Sprintf(`{"version":%d,"op":"nodes"}`, ctl.Version))
		serving, _ := victim.control.desk.held(uint64(attacker.id))
		close(release)
		if err != nil && !errors.Is(err, ctl.ErrRefused) {
			t.Fatal(err)
		}
		if serving > controlServersPerPeer {
			t.Fatalf("%d servers answer one NIC; want %d at most", serving, controlServersPerPeer)
		}
		if held && serving == controlServersPerPeer {
			break
		}
	}
}
