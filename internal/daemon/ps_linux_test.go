package daemon_test

import (
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/ctl"
)

// A process with barriers and remote memory only used to be listed with nothing but zeros.
func TestPsCountsCollectivesRemoteMemoryAndWhatWaitsInStaging(t *testing.T) {
	c := configs(t, 2)
	run(t, c...)
	a, b := mustAttach(t, c[0], "a/0"), mustAttach(t, c[1], "b/0")
	wait(t, a, "b/0")
	region, err := b.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.Put(t.Context(), region.Handle(), 0, []byte("word")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Get(t.Context(), region.Handle(), 0, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	g, err := a.Join(t.Context(), "alone", 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const waiting = 14
	for range waiting {
		if err := a.Peer(b.Name()).SendDelivered(t.Context(), 1, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if p := listed(t, c[0].Socket, "a/0"); p.Memory != 4 || p.Collectives != 3 {
		t.Errorf("a/0 has %d PUTs and GETs, %d collectives; expected 4, 3", p.Memory, p.Collectives)
	}
	if p := listed(t, c[1].Socket, "b/0"); p.Unexpected != waiting || p.CameUnexpected != waiting || p.Staged < waiting*100 {
		t.Errorf("b/0 has %d messages waiting, of %d, in %d bytes; expected %d in %d bytes at least", p.Unexpected, p.CameUnexpected, p.Staged, waiting, waiting*100)
	}
	buf := make([]byte, 100)
	for range waiting {
		if _, err := b.Recv(t.Context(), weft.AnyProcess, weft.AnyTag, buf); err != nil {
			t.Fatal(err)
		}
	}
	if p := listed(t, c[1].Socket, "b/0"); p.Unexpected != 0 || p.Staged != 0 {
		t.Errorf("b/0 has %d messages waiting in %d bytes; expected none", p.Unexpected, p.Staged)
	}
}

// listed returns what a daemon tells tools about a process.
func listed(t *testing.T, socket, name string) ctl.Process {
	t.Helper()
	conn, err := ctl.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all, err := conn.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no process is called %s", name)
	return ctl.Process{}
}

func TestTheProcessesOfASilentNICAreMarked(t *testing.T) {
	c := impatient(t, 2)
	run(t, c[0])
	far := child(t, "daemon", marshal(t, c[1]))
	client := child(t, "client", "far/0 at "+c[1].Socket)
	a := mustAttach(t, c[0], "a/0")
	wait(t, a, "far/0")
	far.Process.Kill()
	client.Process.Kill()
	a.Send(t.Context(), name(t, "far/0"), 1, nil) // so that something is pending
	conn := dialTool(t, c[0])
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		all, err := conn.Names(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			if n.Name == "far/0" && n.Unreachable {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("far/0 is never marked: %+v", all)
		}
	}
}
