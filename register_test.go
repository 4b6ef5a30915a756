//go:build unix

package weft_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft"
	"golang.org/x/sys/unix"
)

// pages maps anonymous memory and unmaps it at the end of the test.
func pages(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

func register(t testing.TB, p *weft.Process, mem []byte, rights weft.Rights) *weft.Region {
	t.Helper()
	r, err := p.Register(mem, rights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close of registered memory: %v", err)
		}
	})
	return r
}

func TestRegisteredMemoryIsARegionLikeAnyOther(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		mem := pages(t, 80)
		own := mem[13 : len(mem)-3] // begins and ends at arbitrary addresses
		r := register(t, b, own, weft.ReadWrite)
		data, back := pattern(1, len(own)), make([]byte, len(own))
		if err := a.Put(ctx, r.Handle(), 0, data); err != nil || !bytes.Equal(own, data) {
			t.Fatalf("put: %v; the bytes are there: %v", err, bytes.Equal(own, data))
		}
		if err := a.Get(ctx, r.Handle(), 0, back); err != nil || !bytes.Equal(back, data) {
			t.Fatalf("get: %v; the bytes are right: %v", err, bytes.Equal(back, data))
		}
		if err := a.Put(ctx, r.Handle(), len(own)-1, []byte{1, 2}); !errors.Is(err, weft.ErrRange) {
			t.Errorf("put beyond the end: %v", err)
		}
		for _, size := range []int{100, 5000, len(own)} {
			sent := make(chan error, 1)
			go func() { sent <- b.Peer(a.Name()).SendDelivered(ctx, 1, own[:size/2], own[size/2:size]) }()
			if m, err := a.Recv(ctx, b.Name(), 1, back); err != nil || !bytes.Equal(back[:m.Len], data[:size]) {
				t.Errorf("a message of %d bytes from there: %v, %v", size, m, err)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Other processes can read a file that is registered for reading, by its handle and by its
// shares, but cannot write to it.
func TestMemoryThatIsRegisteredReadOnlyIsServedAndNotWritten(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	data := pattern(2, 3*os.Getpagesize())
	name := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(name, data, 0o400); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, len(data), unix.PROT_READ, unix.MAP_SHARED)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	if _, err := b.Register(mem, weft.ReadWrite); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "may not be written") {
		t.Errorf("a mapping that cannot be written, registered to be: %v", err)
	}
	r := register(t, b, mem, weft.ReadOnly)
	if _, err := r.Share(0, 10, weft.ReadWrite); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("a share with more rights than its region: %v", err)
	}
	s, err := r.Share(100, 1000, weft.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []struct {
		weft.Handle
		data []byte
	}{{r.Handle(), data}, {s.Handle(), data[100:1100]}} {
		back := make([]byte, len(h.data))
		if err := a.Get(ctx, h.Handle, 0, back); err != nil || !bytes.Equal(back, h.data) {
			t.Errorf("get: %v", err)
		}
		if err := a.Put(ctx, h.Handle, 0, []byte("no")); !errors.Is(err, weft.ErrRegion) {
			t.Errorf("put into memory that is read-only: %v; expected ErrRegion", err)
		}
	}
	sent := sends(b.NIC())
	for what, err := range writes(ctx, a, b, mem) {
		if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "ReadOnly") {
			t.Errorf("%s into memory that is registered as ReadOnly: %v", what, err)
		}
	}
	if n := sends(b.NIC()) - sent; n != 0 {
		t.Errorf("%d operations left nevertheless", n)
	}
}

// writes returns the errors of b's operations that would write to a part.
func writes(ctx context.Context, a, b *weft.Process, part []byte) map[string]error {
	_, recv := b.Recv(ctx, a.Name(), 5, part)
	_, datagram := b.RecvDatagram(ctx, 5, part)
	_, call := b.Peer(a.Name()).Call(ctx, 5, []byte("?"), part)
	return map[string]error{
		"a receive": recv, "a call's reply": call, "a datagram": datagram, "a get": b.Get(ctx, handleOf(a), 0, part),
		"a receive that is started": b.StartRecv(new(weft.Op), a.Name(), 5, part),
		"a get that is started":     b.StartGet(new(weft.Op), handleOf(a), 0, part),
	}
}

// reads returns the errors of b's operations that would read a part.
func reads(ctx context.Context, a, b *weft.Process, part []byte) map[string]error {
	toA := b.Peer(a.Name())
	_, many := toA.SendMany(ctx, 5, [][]byte{part[:40], part[:40]})
	_, call := toA.Call(ctx, 5, part, nil)
	return map[string]error{
		"a send": b.Send(ctx, a.Name(), 5, part), "a short send": b.Send(ctx, a.Name(), 5, part[:40]), "a send of parts": b.Send(ctx, a.Name(), 5, []byte("x"), part[:40]),
		"sends": many, "a delivered send": toA.SendDelivered(ctx, 5, part), "a multicast": b.Multicast(ctx, []weft.Name{a.Name()}, 5, part), "a call": call,
		"a put": b.Put(ctx, handleOf(a), 0, part), "a datagram": b.PeerAt(a.Address()).SendDatagram(ctx, 5, part[:min(len(part), weft.MaxDatagram)]),
		"a send that is started":           toA.StartSend(new(weft.Op), 5, part),
		"a delivered send that is started": toA.StartSendDelivered(new(weft.Op), 5, part),
		"a put that is started":            b.StartPut(new(weft.Op), handleOf(a), 0, part),
	}
}

// handleOf returns a handle that makes a PUT or GET fail at a.
func handleOf(a *weft.Process) weft.Handle {
	r, err := a.Alloc(1)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	return r.Handle()
}

// sends returns the number of operations that a NIC was asked to send.
func sends(n *weft.NIC) uint64 {
	c := n.Counters()
	return c["nic_messages_sent"] + c["nic_puts"] + c["nic_gets"] + c["nic_datagrams_sent"]
}

// Every operation finds unmapped memory before it sends anything, whether its own process or
// another process owns the memory.
func TestRegisteredMemoryThatIsUnmappedIsFoundByEveryOperation(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	mem := pages(t, 40)
	if _, err := b.Register(mem[:0], weft.ReadWrite); !errors.Is(err, weft.ErrBadArgument) {
		t.Errorf("no memory: %v", err)
	}
	register(t, b, pages(t, 2), weft.ReadWrite) // a process may register several regions
	r := register(t, b, mem, weft.ReadWrite)
	if _, err := b.Register(mem[4096:5000], weft.ReadOnly); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "open region") {
		t.Errorf("memory that is registered already: %v", err)
	}
	if err := a.Put(ctx, r.Handle(), 0, []byte("there")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Munmap(mem); err != nil {
		t.Fatal(err)
	}
	sent := sends(b.NIC())
	for _, part := range [][]byte{mem[:100], mem} {
		for _, l := range []map[string]error{writes(ctx, a, b, part), reads(ctx, a, b, part)} {
			for what, err := range l {
				if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "is not mapped") {
					t.Errorf("%s of %d bytes that are unmapped: %v", what, len(part), err)
				}
			}
		}
		if err := a.Put(ctx, r.Handle(), 0, make([]byte, len(part))); !errors.Is(err, weft.ErrRegion) {
			t.Errorf("a put of %d bytes into memory that is unmapped: %v; expected ErrRegion", len(part), err)
		}
		if err := a.Get(ctx, r.Handle(), 0, make([]byte, len(part))); !errors.Is(err, weft.ErrRegion) {
			t.Errorf("a get of %d bytes from memory that is unmapped: %v; expected ErrRegion", len(part), err)
		}
	}
	if n := sends(b.NIC()) - sent; n != 0 {
		t.Errorf("%d operations left nevertheless", n)
	}
	if _, err := b.Register(mem[:10], weft.ReadOnly); err == nil {
		t.Error("memory that is unmapped and registered already is registered again")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Register(mem[:10], weft.ReadOnly); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "is not mapped") {
		t.Errorf("memory that is unmapped: %v", err)
	}
	if err := b.Send(ctx, a.Name(), 6, []byte("alive")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Recv(ctx, b.Name(), 6, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
}

// Processes of the same NIC get their answers without a link.
func TestRegisteredMemoryIsLookedAtForProcessesOfItsNICToo(t *testing.T) {
	all := hosts(t, on(weft.Config{}), 1)
	a, err := all[0].Attach(t.Context(), weft.Name{App: "a"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := all[0].Attach(t.Context(), weft.Name{App: "b"})
	if err != nil {
		t.Fatal(err)
	}
	mem := pages(t, 300)
	r := register(t, b, mem, weft.ReadWrite)
	half := len(mem) / 2
	if err := a.Put(t.Context(), r.Handle(), 0, make([]byte, len(mem))); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mprotect(mem[half:], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if err := a.Put(t.Context(), r.Handle(), 0, make([]byte, half)); err != nil {
		t.Errorf("put into what may be written: %v", err)
	}
	if err := a.Put(t.Context(), r.Handle(), 0, make([]byte, len(mem))); !errors.Is(err, weft.ErrRegion) {
		t.Errorf("put into what may be written in part: %v; expected ErrRegion", err)
	}
	if err := a.Get(t.Context(), r.Handle(), 0, make([]byte, len(mem))); err != nil {
		t.Errorf("get of what may be read: %v", err)
	}
}

// If huge pages are reserved, a region uses them. If there are none, the error says so.
func TestHugePagesAreHadOrTheErrorSaysWhyNot(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	r, err := b.AllocHuge(3 << 20)
	if err != nil {
		if !errors.Is(err, weft.ErrNoMemory) || !strings.Contains(err.Error(), "huge pages") {
			t.Errorf("huge pages that are not there: %v", err)
		}
		return
	}
	if err := a.Put(ctx, r.Handle(), len(r.Bytes())-4, []byte("last")); err != nil || string(r.Bytes()[3<<20-4:]) != "last" || len(r.Bytes()) != 3<<20 {
		t.Errorf("put to the end of %d bytes: %v", len(r.Bytes()), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
