package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/limits"
	"github.com/weftnet/weft/internal/vni"
	"golang.org/x/sys/unix"
)

// exchange sends messages of many sizes from a to b and checks each.
func exchange(t *testing.T, a, b *weft.Process, tag weft.Tag) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sizes := []int{0, 1, 100, 768, 769, 4096, 20_000, 262_144, 1 << 20}
	var both sync.WaitGroup
	both.Go(func() {
		for i, n := range sizes {
			if err := a.Send(ctx, b.Name(), tag, payload(uint64(i), n)); err != nil {
				t.Errorf("send of %d bytes: %v", n, err)
				return
			}
		}
	})
	both.Go(func() {
		buf := make([]byte, 1<<20)
		for i, n := range sizes {
			m, err := b.Recv(ctx, a.Name(), tag, buf)
			if err != nil || m.Len != n || m.From != a.Name() || !bytes.Equal(buf[:n], payload(uint64(i), n)) {
				t.Errorf("message of %d bytes arrived as %+v, %v", n, m, err)
				return
			}
		}
	})
	both.Wait()
}

func TestProcessesOfOneDaemonAndOfTwoExchangeMessages(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		s.run(t, 0)
		s.run(t, 1)
		a, b, far := mustAttach(t, c[0], "a/0"), mustAttach(t, c[0], "b/0"), mustAttach(t, c[1], "far/0")
		wait(t, a, "far/0")
		wait(t, far, "a/0")
		t.Run("one daemon", func(t *testing.T) { exchange(t, a, b, 1); exchange(t, b, a, 2) })
		t.Run("two daemons", func(t *testing.T) { exchange(t, a, far, 3); exchange(t, far, a, 4) })
	})
}

func TestRegionsOfAttachedProcessesArePutToAndGotFrom(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		s.run(t, 0)
		s.run(t, 1)
		owner, local, remote := mustAttach(t, c[0], "owner/0"), mustAttach(t, c[0], "local/0"), mustAttach(t, c[1], "remote/0")
		wait(t, remote, "owner/0")
		r, err := owner.Alloc(300_000)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []*weft.Process{local, remote} {
			want := payload(uint64(i), 200_000)
			if err := p.Put(t.Context(), r.Handle(), 1000, want); err != nil {
				t.Fatalf("%v: put: %v", p.Name(), err)
			}
			if !bytes.Equal(r.Bytes()[1000:201_000], want) {
				t.Errorf("%v: the owner does not see what was put", p.Name())
			}
			got := make([]byte, 200_000)
			if err := p.Get(t.Context(), r.Handle(), 1000, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v: get: %v, equal %v", p.Name(), err, bytes.Equal(got, want))
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*weft.Process{local, remote} {
			if err := p.Put(t.Context(), r.Handle(), 0, []byte{1}); !errors.Is(err, weft.ErrRegion) {
				t.Errorf("%v: put into a closed region: %v", p.Name(), err)
			}
		}
	})
}

func TestAProcessRegistersNoMoreThanItsQuota(t *testing.T) {
	c := configs(t, 1)
	c[0].RegionBytes = 64 << 10
	run(t, c...)
	p, other := mustAttach(t, c[0], "a/0"), mustAttach(t, c[0], "b/0")
	r, err := p.Alloc(40_000)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Alloc(30_000)
	if err == nil || !strings.Contains(err.Error(), "region of 32768 bytes: a/0 has 40960 registered, and its quota is 65536 (region_bytes)") {
		t.Errorf("beyond the quota: %v", err)
	}
	if _, err := other.Alloc(64 << 10); err != nil {
		t.Errorf("another process, whose quota is its own: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Alloc(64 << 10); err != nil {
		t.Errorf("after all was given back: %v", err)
	}
}

func TestMemoryIsGivenBackByManyRegions(t *testing.T) {
	c := configs(t, 1)
	c[0].RegionBytes = 5 << 30
	run(t, c...)
	p := mustAttach(t, c[0], "a/0")
	for range 100 { // in total far more than a process may have at once
		r, err := p.Alloc(4 << 30)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Alloc(128 << 30); err == nil || !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a region above the limit: %v", err)
	}
}

func TestCallsAreAnswered(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		s.run(t, 0)
		s.run(t, 1)
		client, server := mustAttach(t, c[0], "client/0"), mustAttach(t, c[1], "server/0")
		wait(t, client, "server/0")
		go func() {
			buf := make([]byte, 100)
			for {
				m, err := server.Recv(context.Background(), weft.AnyProcess, weft.AnyTag, buf)
				if err != nil {
					return
				}
				_ = server.Reply(context.Background(), m, []byte("you said "), buf[:m.Len])
			}
		}()
		for i := range 50 {
			reply := make([]byte, 100)
			said := fmt.Sprint("hello ", i)
			m, err := client.Peer(server.Name()).Call(t.Context(), 7, []byte(said), reply)
			if err != nil || string(reply[:m.Len]) != "you said "+said {
				t.Fatalf("reply %q, %v", reply[:m.Len], err)
			}
			if i%10 == 0 {
				time.Sleep(3 * time.Millisecond) // all have parked by then
			}
		}
	})
}

func TestAnInboxOfAnAttachedProcessReceivesOneByOne(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		s.run(t, 0)
		s.run(t, 1)
		p, q := mustAttach(t, c[0], "p/0"), mustAttach(t, c[1], "q/0")
		wait(t, p, "q/0")
		in, err := q.Inbox(p.Name(), weft.AnyTag, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		sent := start(func() error {
			for i := range 20 {
				if err := p.Send(ctx, q.Name(), weft.Tag(i), bytes.Repeat([]byte{byte(i)}, i*20000)); err != nil {
					return err
				}
			}
			return nil
		})
		for i := range 20 {
			m, err := in.Next(ctx)
			if cut := i*20000 > 256<<10; cut != errors.Is(err, weft.ErrTruncated) || err != nil && !cut {
				t.Fatalf("message %d: %v", i, err)
			}
			if m.From != p.Name() || m.Tag != weft.Tag(i) || m.Full != i*20000 || !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(i)}, min(i*20000, 256<<10))) {
				t.Fatalf("message %d came as %+v", i, m)
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := p.Peer(q.Name()).SendDelivered(ctx, 1, []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := in.Next(ctx); err != nil || m.Data[0] != 0 {
			t.Fatalf("%v, %v", m.Data, err)
		}
		in.Close()
		buf := make([]byte, 1)
		if _, err := q.Recv(ctx, p.Name(), 1, buf); err != nil || buf[0] != 1 {
			t.Errorf("after the Inbox was closed: %v, %v", buf, err)
		}
	})
}

// ending starts an operation and returns a channel that gets its result.
func ending(t *testing.T, begin func(*weft.Op) error) <-chan error {
	t.Helper()
	o := new(weft.Op)
	if err := begin(o); err != nil {
		t.Fatal(err)
	}
	return start(func() error { _, err := o.Wait(context.Background()); return err })
}

// unexpected waits until n messages wait for a process to receive them.
func unexpected(t *testing.T, c daemon.Config, process string, n int) {
	t.Helper()
	conn := dialTool(t, c)
	var all []ctl.Process
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var err error
		if all, err = conn.Processes(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Name == process && p.Unexpected == n {
				return
			}
		}
	}
	t.Fatalf("there are not %d messages that wait for %s: %+v", n, process, all)
}

func TestAKilledClientIsGoneForEverybody(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		s.run(t, 0)
		s.run(t, 1)
		near, far := mustAttach(t, c[0], "near/0"), mustAttach(t, c[1], "far/0")
		victim := child(t, "client", "victim/0 at "+c[0].Socket)
		wait(t, near, "victim/0")
		wait(t, far, "victim/0")
		pending := map[string]<-chan error{}
		for who, p := range map[string]*weft.Process{"near": near, "far": far} {
			peer := p.Peer(name(t, "victim/0"))
			pending[who+"'s receive"] = ending(t, func(o *weft.Op) error { return peer.StartRecv(o, 1, make([]byte, 10)) })
			// It waits for permission: no receive is posted for it.
			pending[who+"'s long send"] = ending(t, func(o *weft.Op) error { return peer.StartSendDelivered(o, 5, make([]byte, 8<<20)) })
			pending[who+"'s call"] = start(func() error {
				_, err := peer.Call(context.Background(), 6, []byte("hi"), make([]byte, 10))
				return err
			})
		}
		unexpected(t, c[0], "victim/0", 4) // the sends and the calls are all in flight
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for what, errs := range pending {
			if err := ends(t, what, errs); !errors.Is(err, weft.ErrProcessGone) {
				t.Errorf("%s ended with %v, want process gone", what, err)
			}
		}
		exchange(t, near, far, 9) // the other processes go on
		again := mustAttach(t, c[0], "victim/0")
		wait(t, far, "victim/0")
		exchange(t, far, again, 10) // and the name is free
	})
}

func TestAKilledDaemonIsGoneForItsProcessesAndUnreachableForOthersAndComesBack(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		for i := range c {
			c[i].UnreachableAfter = daemon.Duration(soonUnreachable)
		}
		s.run(t, 0)
		victim := s.child(t, 1)
		near, own := mustAttach(t, c[0], "near/0"), mustAttach(t, c[1], "own/0")
		wait(t, near, "own/0")
		wait(t, own, "near/0")
		exchange(t, near, own, 1)

		parked := ending(t, func(o *weft.Op) error { return own.StartRecv(o, weft.AnyProcess, 5, make([]byte, 10)) })
		sending := ending(t, func(o *weft.Op) error {
			return own.Peer(name(t, "near/0")).StartSendDelivered(o, 5, make([]byte, 8<<20))
		})
		receiving := ending(t, func(o *weft.Op) error { return near.StartRecv(o, name(t, "own/0"), 6, make([]byte, 10)) })
		toward := ending(t, func(o *weft.Op) error {
			return near.Peer(name(t, "own/0")).StartSendDelivered(o, 6, make([]byte, 8<<20))
		})
		unexpected(t, c[1], "own/0", 1) // the send to it is in flight
		watch := startWatch(t)
		if err := victim.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for what, errs := range map[string]<-chan error{"a parked receive": parked, "a send": sending} {
			if err := ends(t, what, errs); !errors.Is(err, weft.ErrNICGone) {
				t.Errorf("%s at the killed daemon ended with %v, want NIC gone", what, err)
			}
			// its socket tells, not its silence
			watch.within(t, what+" at the killed daemon has ended", limits.DaemonPatience)
		}
		for what, errs := range map[string]<-chan error{"a receive": receiving, "a send": toward} {
			if err := ends(t, what, errs); !errors.Is(err, weft.ErrUnreachable) {
				t.Errorf("%s of the peer ended with %v, want unreachable", what, err)
			}
			watch.within(t, what+" of the peer has ended", 2*soonUnreachable)
		}
		if err := own.Send(t.Context(), name(t, "near/0"), 1, nil); !errors.Is(err, weft.ErrNICGone) {
			t.Errorf("a later send: %v", err)
		}
		own.Close()

		s.child(t, 1) // the same state and socket: a new incarnation of the same NIC
		again := mustAttach(t, c[1], "own/0")
		wait(t, near, "own/0")
		wait(t, again, "near/0")
		exchange(t, near, again, 11)
		exchange(t, again, near, 12)
	})
}

// A signal may come as soon as a daemon says that it is up.
func TestADaemonThatIsEndedAtOnceEndsInOrder(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nic.sock")
	d, err := daemon.New(daemon.Config{Socket: socket, Listen: "127.0.0.1:0"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(over); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestADaemonThatEndsInOrderSaysSo(t *testing.T) {
	onLinks(t, 0, func(t *testing.T, s *site) {
		c := s.c
		for i := range c {
			// no operation ends because a NIC is silent
			c[i].UnreachableAfter = daemon.Duration(time.Hour)
		}
		s.run(t, 0)
		other := s.child(t, 1)
		near, own := mustAttach(t, c[0], "near/0"), mustAttach(t, c[1], "own/0")
		wait(t, near, "own/0")
		parked := ending(t, func(o *weft.Op) error { return own.StartRecv(o, weft.AnyProcess, 5, nil) })
		receiving := ending(t, func(o *weft.Op) error { return near.StartRecv(o, name(t, "own/0"), 6, nil) })
		// Otherwise the receive may name a process that has gone, and wait for the next process
		// of that name.
		heeded(t, near)
		conn, err := ctl.Dial(t.Context(), c[1].Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := ends(t, "the receive there", parked); !errors.Is(err, weft.ErrNICGone) {
			t.Errorf("the receive there ended with %v", err)
		}
		if err := ends(t, "the peer's receive", receiving); !errors.Is(err, weft.ErrUnreachable) && !errors.Is(err, weft.ErrProcessGone) {
			t.Errorf("the peer's receive ended with %v", err)
		}
		if err := ends(t, "the daemon", start(other.Wait)); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
		if _, err := os.Stat(c[1].Socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
}

func TestASecondDaemonOnASocketRefusesToStart(t *testing.T) {
	c := configs(t, 1)
	run(t, c[0])
	second := c[0]
	second.StateDir, second.Listen = t.TempDir(), "127.0.0.1:0"
	if _, err := daemon.New(second, &logWriter{t: t}); !errors.Is(err, ctl.ErrSocketTaken) || !strings.Contains(err.Error(), c[0].Socket) {
		t.Errorf("New = %v", err)
	}
	mustAttach(t, c[0], "a/0") // the first is unharmed
}

func TestASecondProcessOfANameIsRefused(t *testing.T) {
	c := configs(t, 1)
	run(t, c[0])
	mustAttach(t, c[0], "a/0")
	if _, err := attach(t.Context(), c[0].Socket, "a/0"); !errors.Is(err, weft.ErrNameTaken) || !strings.Contains(err.Error(), "a/0") {
		t.Errorf("Attach = %v", err)
	}
}

func TestCountersAndListsTellWhatHappens(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		s.run(t, 0)
		s.run(t, 1)
		a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/7")
		wait(t, a, "b/7")
		exchange(t, a, b, 1)
		conn, err := ctl.Dial(t.Context(), c[0].Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		info, mem, unmap, err := conn.Stat(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer unmap()
		if info.Address != c[0].Listen || info.PID != os.Getpid() {
			t.Errorf("info %+v", info)
		}
		page, err := vni.OpenCounterPage(mem)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); page.Load(vni.NICMessagesSent) < 9; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d messages counted", page.Load(vni.NICMessagesSent))
			}
		}
		table, err := vni.OpenPeerTable(mem[vni.PeersAt:])
		if err != nil {
			t.Fatal(err)
		}
		loopPage, err := vni.OpenLoopPage(mem[vni.LoopAt:])
		if err != nil {
			t.Fatal(err)
		}
		var loop vni.Loop
		for deadline := time.Now().Add(patience); !loopPage.Load(&loop) || loop.Polls.Count == 0 || loop.LongestPollAt == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the loop has made %d polls with work, the longest at %d", loop.Polls.Count, loop.LongestPollAt)
			}
		}
		var peer vni.Peer
		for deadline := time.Now().Add(patience); !table.Load(0, &peer) || peer.Counts[vni.PeerUpNow] != 1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no peer is up: %+v", peer)
			}
		}
		if peer.Addr.String() != c[1].Listen || peer.Counts[vni.PeerFramesIn] == 0 || peer.Counts[vni.PeerBytesOut] == 0 ||
			table.Len() != 1 || info.Clock == 0 || len(info.Reasons) == 0 {
			t.Errorf("peer %+v of %d; info %+v", peer, table.Len(), info)
		}
		if nodes, err := conn.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].State != "up" || nodes[0].Address != c[1].Listen {
			t.Errorf("nodes %+v, %v", nodes, err)
		}
		if ps, err := conn.Processes(t.Context()); err != nil || len(ps) != 1 || ps[0].Name != "a/0" || ps[0].PID != os.Getpid() ||
			ps[0].Sent < 9 || ps[0].SentBytes == 0 || ps[0].Commands < ps[0].Sent || ps[0].Turns < ps[0].Sent {
			t.Errorf("processes %+v, %v", ps, err)
		}
		if names, err := conn.Names(t.Context()); err != nil || len(names) != 2 {
			t.Errorf("names %+v, %v", names, err)
		}
	})
}

func TestProcessesComeAndGoWhileOthersTalk(t *testing.T) {
	onLinks(t, 0.05, func(t *testing.T, s *site) {
		c := s.c
		s.run(t, 0)
		s.run(t, 1)
		a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
		wait(t, a, "b/0")
		wait(t, b, "a/0")
		var all sync.WaitGroup
		// came counts guests, also those that have gone; left counts the series of guests that
		// have ended.
		var came, left atomic.Int64
		var between atomic.Int64 // exchanges during which guests came
		const guests, rounds = 4, 20
		for i := range guests {
			all.Go(func() { // attaches, leaves something at both ends, and closes
				defer left.Add(1)
				// exchanges may take longer than all rounds
				for round := 0; (round < rounds || between.Load() == 0) && !t.Failed(); round++ {
					p, err := attach(t.Context(), c[i%2].Socket, fmt.Sprintf("guest/%d", i))
					if err != nil {
						t.Errorf("guest %d, round %d: %v", i, round, err)
						return
					}
					came.Add(1)
					for _, to := range []*weft.Process{a, b} {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						if _, err := p.WaitName(ctx, to.Name()); err != nil {
							t.Errorf("guest %d, round %d: %v", i, round, err)
						}
						cancel()
						if err := p.Peer(to.Name()).StartSend(new(weft.Op), 1000, make([]byte, 1<<(10+round%10))); err != nil {
							t.Errorf("guest %d, round %d: %v", i, round, err)
						}
					}
					if _, err := p.Alloc(10_000); err != nil {
						t.Errorf("guest %d, round %d: %v", i, round, err)
					}
					if err := p.Close(); err != nil {
						t.Errorf("guest %d, round %d: %v", i, round, err)
					}
				}
			})
		}
		for tag := weft.Tag(0); (tag < 5 || left.Load() < guests) && !t.Failed(); tag++ {
			before := came.Load()
			exchange(t, a, b, 2*tag)
			exchange(t, b, a, 2*tag+1)
			if now := came.Load(); now > before && before > 0 {
				between.Add(1)
			}
		}
		all.Wait()
	})
}

func TestOneNodeIsEnoughToJoinAFabric(t *testing.T) {
	c := configs(t, 3)
	// both know only the daemon in the middle
	c[0].Nodes, c[2].Nodes = c[0].Nodes[1:2], c[2].Nodes[1:2]
	c[1].Nodes = nil
	run(t, c...)
	a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[2], "b/0")
	wait(t, a, "b/0")
	wait(t, b, "a/0")
	exchange(t, a, b, 1)
}

func TestTheLogTellsWhichPeersComeAndGo(t *testing.T) {
	c := configs(t, 2)
	log := run(t, c[0])
	child(t, "daemon", marshal(t, c[1]))
	says := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(patience); !strings.Contains(log.String(), what); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the log does not say %q", what)
			}
		}
	}
	says("peer is up")
	conn, err := ctl.Dial(t.Context(), c[1].Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	says("peer is down")
}

func TestWhoIsNotAllowedMayNotAttach(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	c := configs(t, 1)[0]
	// so that every user can connect, and the daemon has to check which user it is
	c.AllowGIDs = []int{12345}
	run(t, c)
	dir := strings.TrimSuffix(c.Socket, "/0.sock")
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = d[:strings.LastIndexByte(d, '/')] {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	try := func(gid uint32, others ...uint32) string {
		x := exec.Command("/proc/self/exe")
		x.Env = append(os.Environ(), roleVariable+"=outsider="+c.Socket)
		x.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: gid, Groups: others}}
		out, err := x.Output()
		if errors.Is(err, os.ErrPermission) {
			t.Skip("another user cannot run the test's binary")
		}
		return string(out)
	}
	if out := try(54321); !strings.Contains(out, "user 65534; expected the daemon's user") {
		t.Errorf("an outsider was told %q", out)
	}
	if out := try(12345); out != "ready\n" {
		t.Errorf("a member of the group was told %q", out)
	}
	others := []uint32{12345} // after more groups than the first query has room for
	for g := range uint32(200) {
		others = append(others, 20000+g)
	}
	if out := try(54321, others...); out != "ready\n" {
		t.Errorf("a user who is in the group besides was told %q", out)
	}
}

func marshal(t *testing.T, c daemon.Config) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// rawAttach attaches without a process half, as a hostile program can.
func rawAttach(t *testing.T, c daemon.Config, name string) *ctl.Attachment {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	a, err := conn.Attach(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); a.Unmap() })
	return a
}

func TestAHostileProcessHarmsOnlyItself(t *testing.T) { // decision 10
	c := configs(t, 2)
	log := run(t, c...)
	a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
	wait(t, a, "b/0")
	for i := range 8 {
		h := rawAttach(t, c[0], fmt.Sprintf("hostile/%d", i))
		w := h.Waiter(ctl.Hooks{Listening: func() bool { return false }})
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			garbage := payload(uint64(i), 2*len(h.RW))
			for round := range 200 {
				// over the rounds, every word: commands, contexts, doorbells
				copy(h.RW, garbage[round*4096:])
				w.Kick()
				if w.Gone() {
					return
				}
			}
		}()
		exchange(t, a, b, weft.Tag(100+i))
		<-stop
	}
	exchange(t, b, a, 50)
	if !strings.Contains(log.String(), "process thrown out") {
		t.Error("none of them was thrown out")
	}
}

func TestWhatOnlyTheNICWritesCannotBeMadeWritableAndNothingShrinks(t *testing.T) { // decision 10
	c := configs(t, 1)
	run(t, c[0])
	conn, err := ctl.Dial(t.Context(), c[0].Socket)
	if err != nil {
		t.Fatal(err)
	}
	a := rawAttach(t, c[0], "hostile/0")
	if err := unix.Mprotect(a.RO, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		t.Error("the NIC's own area became writable")
	}
	_, counters, unmap, err := conn.Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	if err := unix.Mprotect(counters, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		t.Error("the counters became writable")
	}
}

func TestAProcessWithMoreContextsHasMoreUnderWay(t *testing.T) { // QNIX-61
	c := configs(t, 1)[0]
	run(t, c)
	a := mustAttach(t, c, "a/0")
	b, err := weft.Attach(t.Context(), weft.AttachConfig{Socket: c.Socket, Name: name(t, "b/0"), Geometry: weft.Geometry{Contexts: 200, PoolPages: 300}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const receives = 200
	var all []<-chan error
	for i := range receives {
		all = append(all, start(func() error {
			_, err := b.Recv(t.Context(), weft.AnyProcess, weft.Tag(i), make([]byte, 8))
			return err
		}))
	}
	wait(t, a, "b/0")
	for i := range receives { // the last first, so that all are posted
		if err := a.Send(t.Context(), name(t, "b/0"), weft.Tag(receives-1-i), []byte("message")); err != nil {
			t.Fatal(err)
		}
		if err := ends(t, "a receive", all[receives-1-i]); err != nil {
			t.Fatal(err)
		}
	}
	_, err = weft.Attach(t.Context(), weft.AttachConfig{Socket: c.Socket, Name: name(t, "c/0"), Geometry: weft.Geometry{Contexts: 5000}})
	if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "5000 contexts (M); this NIC permits 1 to 1024") {
		t.Errorf("5000 contexts: %v", err)
	}
}

func TestWhomNobodyCanReachIsNotAllowed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	x := exec.Command("/proc/self/exe")
	x.Env = []string{roleVariable + "=daemon=" + marshal(t, daemon.Config{AllowUIDs: []int{1}, Listen: "127.0.0.1:0"}), "TMPDIR=" + os.TempDir()}
	x.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := x.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("another user cannot run the test's binary")
	}
	if !strings.Contains(string(out), "allow_uids: others cannot enter the directory of the socket") {
		t.Errorf("a daemon in a directory of its user's own that is to serve others says %q", out)
	}
}
