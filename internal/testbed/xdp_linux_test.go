package testbed_test

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testbed"
)

func TestALargeSendIsDrawnForFrameByFrame(t *testing.T) {
	const frames, size = 40, 1400
	tb := build(t, testbed.Config{Hosts: 2, Lossy: true})
	a, b := listen(t, tb.Host(0), tb.Host(0).Addr()), listen(t, tb.Host(1), tb.Host(1).Addr())
	raw, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var e error
	if err := raw.Control(func(fd uintptr) {
		e = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, size)
	}); err != nil {
		t.Fatal(err)
	}
	if e != nil {
		t.Skip("no segmentation of UDP:", e)
	}
	before := drops(t, tb.Host(0))
	if _, err := a.WriteToUDPAddrPort(make([]byte, frames*size), port(b)); err != nil {
		t.Fatal(err)
	}
	counted(t, tb.Host(0), before, frames) // waits until the program has counted them
}

func TestTheHostsOwnEndTakesAProgramOfTheHosts(t *testing.T) {
	for _, c := range []testbed.Config{{Hosts: 2}, {Hosts: 2, Loss: 0.01}} {
		tb := build(t, c)
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type:         ebpf.XDP,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
			License:      "Apache-2.0",
		})
		if err != nil {
			t.Skip("no BPF:", err)
		}
		defer prog.Close()
		err = tb.Host(1).Do(func() error {
			l, err := net.InterfaceByName(testbed.Interface)
			if err != nil {
				return err
			}
			own, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: l.Index, Flags: link.XDPDriverMode})
			if err == nil {
				t.Cleanup(func() { own.Close() })
			}
			return err
		})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if c.Loss > 0 {
			if err := tb.SetLoss(0); err != nil {
				t.Fatal(err)
			}
		}
		exchange(t, listen(t, tb.Host(0), tb.Host(0).Addr()), listen(t, tb.Host(1), tb.Host(1).Addr()))
	}
}
