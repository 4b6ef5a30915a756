package gossip

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func aClaim() claim {
	return claim{id: 0x60_dd7f_ff8c, incarnation: 7, addr: netip.MustParseAddrPort("10.0.0.2:7700"), stance: claiming}
}

func TestAClaimIsWrittenAsItsDrawingSays(t *testing.T) {
	got := aClaim().append(nil)
	want := []byte{1, 1, 0x14, 0x1e, 0x8c, 0xff, 0x7f, 0xdd, 0x60, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2}
	if !bytes.Equal(got, want) {
		t.Errorf("written %x, want %x", got, want)
	}
}

func TestAClaimIsReadBack(t *testing.T) {
	for _, addr := range []string{"10.0.0.2:7700", "[2001:db8::1]:1", "127.0.0.1:65535"} {
		for s := range stances {
			c := aClaim()
			c.addr, c.stance = netip.MustParseAddrPort(addr), stance(s)
			if got, err := parseClaim(c.append(nil)); err != nil || got != c {
				t.Errorf("%+v is read as %+v, %v", c, got, err)
			}
		}
	}
}

func TestNoPartOfAClaimIsTakenForAClaim(t *testing.T) {
	for _, addr := range []string{"10.0.0.2:7700", "[2001:db8::1]:1"} {
		c := aClaim()
		c.addr = netip.MustParseAddrPort(addr)
		whole := c.append(nil)
		for n := range whole {
			got, err := parseClaim(whole[:n])
			if !errors.Is(err, errClaim) {
				t.Errorf("%d of %d bytes are read as %+v, %v", n, len(whole), got, err)
			}
		}
	}
}

func TestWhatCannotBeANICIsRefused(t *testing.T) {
	for want, change := range map[string]func(b []byte) []byte{
		"version 2":         func(b []byte) []byte { b[0] = 2; return b },
		"stance 3":          func(b []byte) []byte { b[1] = 3; return b },
		"10.0.0.2:0, where": func(b []byte) []byte { b[2], b[3] = 0, 0; return b },
		"NIC id 0":          func(b []byte) []byte { clear(b[4:12]); return b },
		"incarnation 0":     func(b []byte) []byte { clear(b[12:20]); return b },
		"[::]:7700":         func(b []byte) []byte { clear(b[20:]); return b },
		"0.0.0.0:7700":      func(b []byte) []byte { clear(b[32:]); return b },
		"224.0.0.1:7700":    func(b []byte) []byte { b[32], b[33], b[35] = 224, 0, 1; return b },
		"37 bytes":          func(b []byte) []byte { return append(b, 0) },
	} {
		if c, err := parseClaim(change(aClaim().append(nil))); !errors.Is(err, errClaim) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %+v, %v", want, c, err)
		}
	}
}

func FuzzClaim(f *testing.F) {
	f.Add(aClaim().append(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1}, claimLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseClaim(b)
		if err != nil {
			if !errors.Is(err, errClaim) {
				t.Errorf("error %v", err)
			}
			return
		}
		if !bytes.Equal(c.append(nil), b) {
			t.Errorf("%x is read as %+v and written as %x", b, c, c.append(nil))
		}
	})
}
