package xdp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// loaded returns the program for an address, in the kernel. The table of a driver has a socket,
// which needs an interface with AF_XDP. This table holds interfaces instead, with the loopback
// interface.
func loaded(t *testing.T, to netip.AddrPort, vlan uint16) *ebpf.Program {
	t.Helper()
	table, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err == nil {
		t.Cleanup(func() { table.Close() })
		err = table.Put(uint32(0), uint32(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Apache-2.0", Instructions: steer(table.FD(), to, vlan, nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// The kernel runs the program on frames that differ from ours in one point.
func TestTheProgramTakesOurDatagramsAndPassesEverythingElse(t *testing.T) {
	const redirect = 4
	for _, p := range paths {
		l3 := ethernetLen
		if p.vlan != 0 {
			l3 += vlanLen
		}
		six := !p.to.Addr().Is4()
		l4, protocol, dest := l3+ipv4Len, l3+9, l3+16
		if six {
			l4, protocol, dest = l3+ipv6Len, l3+6, l3+24
		}
		set := func(at int, v ...byte) func([]byte) []byte {
			return func(b []byte) []byte { copy(b[at:], v); return b }
		}
		for what, c := range map[string]struct {
			change func([]byte) []byte
			not    bool // has no meaning in this version of IP
		}{
			"another port":           {change: set(l4+2, 0xff, 0xfe)},
			"another address":        {change: set(dest+3, 99)},
			"another end of address": {change: set(l4-1, 99)},
			"TCP":                    {change: set(protocol, 6)},
			"ICMP":                   {change: set(protocol, 1)},
			"ARP":                    {change: set(l3-2, 0x08, 0x06)},
			"of experiments":         {change: set(l3-2, testType>>8, testType&0xff)},
			"the other IP":           {change: set(l3-2, map[bool][]byte{true: {0x08, 0x00}, false: {0x86, 0xdd}}[six]...)},
			"the first fragment":     {change: set(l3+6, 0x20, 0), not: six},
			"the last fragment":      {change: set(l3+6, 0, 9), not: six},
			"options":                {change: set(l3, 0x46), not: six},
			"an extension header":    {change: set(l3+6, 44), not: !six},
			"cut short":              {change: func(b []byte) []byte { return b[:l4+udpLen-1] }},
			"of another VLAN":        {change: set(ethernetLen, 0, byte(p.vlan+1)), not: p.vlan == 0},
			"of a VLAN 256 apart":    {change: set(ethernetLen, byte(p.vlan>>8^1), byte(p.vlan)), not: p.vlan == 0},
			"another tagging": {change: func(b []byte) []byte {
				if p.vlan != 0 {
					return slices.Delete(b, 12, 12+vlanLen)
				}
				return slices.Insert(b, 12, 0x81, 0, 0, 7)
			}},
		} {
			steering := loaded(t, p.to, p.vlan)
			if got, _, err := steering.Test(packet(&p, pattern(64))); err != nil || got != redirect {
				t.Fatalf("%v to %v: our own frame: %d, %v; expected %d", p.from, p.to, got, err, redirect)
			}
			if got, _, err := steering.Test(c.change(packet(&p, pattern(64)))); !c.not && (err != nil || got != xdpPass) {
				t.Errorf("%v to %v, VLAN %d: a frame that is %s: %d, %v; expected %d", p.from, p.to, p.vlan, what, got, err, xdpPass)
			}
		}
	}
}

// Neither marks of congestion or other queueing nor the priority of a tag make the program pass
// a frame to the kernel.
func TestTheProgramTakesFramesWhateverTheirClass(t *testing.T) {
	for _, p := range paths[:3] {
		b := packet(&p, pattern(64))
		if p.vlan != 0 {
			b[ethernetLen] |= 0xf0
		} else if p.to.Addr().Is4() {
			b[ethernetLen+1] = 0xff
		} else {
			binary.BigEndian.PutUint32(b[ethernetLen:], 0x6fffffff)
		}
		if got, _, err := loaded(t, p.to, p.vlan).Test(b); err != nil || got == xdpPass {
			t.Errorf("to %v: %d, %v", p.to, got, err)
		}
	}
}
