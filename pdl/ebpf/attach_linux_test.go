package ebpf_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/link"
	"github.com/weftnet/weft/internal/link/linktest"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/wire"
	"github.com/weftnet/weft/pdl/ebpf"
	"github.com/weftnet/weft/pdl/vm"
)

// nics returns two AF_XDP drivers on two hosts, joined by a cable. If that is impossible here,
// it skips the test with the reason.
func nics(t *testing.T) (client, server *xdp.Driver) {
	t.Helper()
	bed, err := testbed.New(testbed.Config{Hosts: 2})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.Close() })
	var d [2]*xdp.Driver
	for i := range d {
		err := bed.Host(i).Do(func() (err error) {
			d[i], err = xdp.Listen(xdp.Config{Addr: netip.AddrPortFrom(bed.Host(i).Addr(), 0)})
			return err
		})
		if errors.Is(err, xdp.ErrUnavailable) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ERANGE) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d[i].Close() })
	}
	return d[0], d[1]
}

const store = `PROGRAM store: CONST read = 1, write = 2, answer = 9;
VAR cell[16], reads; TRIGGERS read, write;
BEGIN cell[3] = 33; END;
MESSAGE write: BEGIN cell[PACKET[0] & 15] = PACKET[1]; DISPLAY PACKET[1]; END;
MESSAGE read: BEGIN reads = reads + 1; SEND cell[PACKET[0] & 15] LEN 8 AS answer TO PACKET[1] AT SOURCE; END;
END;`

// residing loads a program into the driver of a NIC. Its data is what the initialisation in the
// virtual machine has left.
func residing(t *testing.T, src string, d *xdp.Driver) (*ebpf.Host, *ebpf.Resident) {
	t.Helper()
	tagged, pieces := d.Frames()
	cfg := ebpf.HostConfig{Service: service, Pieces: pieces, Path: ebpf.Path{VLAN: tagged}}
	h, err := ebpf.NewHost(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	m := compiled(t, src)
	v := newMachine(t, m)
	if o := v.machine.Start(programID); o != vm.Awaiting {
		t.Fatal(o)
	}
	data, err := v.machine.Data(programID)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := ebpf.Compile(m, ebpf.Options{ID: programID, Service: cfg.Service, Path: cfg.Path})
	if err != nil {
		t.Fatal(err)
	}
	r, err := obj.Load(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	session := ebpf.Session{NIC: peerNIC, Cookie: cookie, Most: d.MTU(), ReplyIndex: 99, ReplyCookie: 7777, ReplyCounter: 1000}
	if err := errors.Join(r.Start(data), r.Attach(), h.SetSession(index, session), d.Chain(h.Steps(), ebpf.StepDispatch, ebpf.StepOn)); err != nil {
		t.Fatal(err)
	}
	return h, r
}

// A datagram to a resident program is answered where its frame arrives: its NIC never polls.
// Frames for others reach the NIC as before.
func TestADatagramIsAnsweredInTheDriver(t *testing.T) {
	client, server := nics(t)
	h, r := residing(t, store, server)
	counter := uint64(0)
	send := func(trigger uint32, payload []byte) {
		counter++
		linktest.Send(t, client, server.Addr(), datagram(counter, programID, trigger, payload)[42:])
	}
	for _, c := range []struct {
		write       bool
		place, want uint64
	}{{false, 3, 33}, {true, 5, 555}, {false, 5, 555}, {false, 4, 0}, {true, 3, 1}, {false, 3, 1}} {
		if c.write {
			send(2, words8(c.place, c.want))
			id, v, err := h.Display(time.Now().Add(time.Minute))
			if err != nil || id != programID || v != int64(c.want) {
				t.Fatalf("program %d displays %d, %v", id, v, err)
			}
			continue
		}
		send(1, words8(c.place, 4242))
		var in linktest.Inbox
		linktest.Collect(t, client, &in, 1)
		frame := in.Frames[0]
		n, err := wire.Open(frame, 7777)
		if err != nil || in.From[0] != server.Addr() {
			t.Fatalf("the reply from %v: %v", in.From[0], err)
		}
		_, payload, err := wire.ParseDatagram(frame[wire.OuterLen:n])
		if err != nil {
			t.Fatal(err)
		}
		p, message, err := wire.ParseProgramDatagram(payload)
		if want := (wire.ProgramDatagram{Program: 4242, Trigger: 9, From: programID}); err != nil || p != want || !bytes.Equal(message, words8(c.want)) {
			t.Errorf("cell %d: %+v, %x, %v; expected %d", c.place, p, message, err, c.want)
		}
	}
	p, c, err := r.Profile()
	if err != nil || p.Activations != counter || c.Sends != 4 {
		t.Errorf("%+v, %+v, %v", p, c, err)
	}
	comes := func(what string, frame []byte) {
		t.Helper()
		linktest.Send(t, client, server.Addr(), frame)
		var in linktest.Inbox
		linktest.Collect(t, server, &in, 1)
		if !bytes.Equal(in.Frames[0], frame) {
			t.Errorf("%s: %x has come, and not %x", what, in.Frames[0], frame)
		}
	}
	comes("a frame of another kind", []byte("another frame"))
	comes("a datagram for another program", datagram(counter+1, programID+1, 1, nil)[42:])
	forged := datagram(counter+1, programID, 2, words8(3, 666))[42:]
	forged[len(forged)-1]++
	comes("a forged one", forged)
	if err := r.Detach(); err != nil {
		t.Fatal(err)
	}
	comes("one for a program that is detached", datagram(counter+1, programID, 2, words8(3, 666))[42:])
	if err := r.Attach(); err != nil {
		t.Fatal(err)
	}
	send(1, words8(3, 4242))
	var in linktest.Inbox
	linktest.Collect(t, client, &in, 1)
	if err := server.Chain(nil, 0, 0); err != nil {
		t.Fatal(err)
	}
	comes("one without a chain", datagram(counter+1, programID, 2, words8(3, 666))[42:])
	var all link.Counters
	if server.Counters(&all); all.FramesIn != 5 {
		t.Errorf("%d frames have come to the NIC; expected the 5 that were not answered", all.FramesIn)
	}
}
