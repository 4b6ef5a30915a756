package newcomers

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

func tcp(address string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
}

func TestTheOldestOfTheLargestSourceGivesWay(t *testing.T) {
	s := New(4)
	var ended []string
	enter := func(name, address string) *Newcomer {
		return s.Enter(SourceOf(tcp(address)), func() { ended = append(ended, name) })
	}
	honest := enter("honest", "10.0.0.1:1")
	first := enter("first", "10.0.0.2:1")
	enter("second", "10.0.0.2:2")
	third := enter("third", "10.0.0.2:3")
	enter("fourth", "10.0.0.2:4")
	enter("fifth", "10.0.0.2:5")
	if want := []string{"first", "second"}; !slices.Equal(ended, want) {
		t.Fatalf("ended: %v; want %v", ended, want)
	}
	if first.Leave() {
		t.Error("a client that gave way left as if it had not")
	}
	for _, n := range []*Newcomer{honest, honest, third} { // a second Leave changes nothing
		if !n.Leave() || n.GaveWay() {
			t.Error("the wrong client gave way")
		}
	}
	if s.Len() != 2 {
		t.Errorf("%d clients are left; want 2", s.Len())
	}
	for range 2 {
		if !s.GiveWay() {
			t.Fatal("no client gave way, and there was one")
		}
	}
	if s.GiveWay() || len(s.sources) != 0 {
		t.Errorf("an empty set has %d sources, or a client to give way", len(s.sources))
	}
	if want := []string{"first", "second", "fourth", "fifth"}; !slices.Equal(ended, want) {
		t.Errorf("ended: %v; want %v", ended, want)
	}
}

func TestClientsOfOneHostAreOneSource(t *testing.T) {
	for _, c := range []struct {
		a, b net.Addr
		same bool
	}{
		{tcp("127.0.0.1:1"), tcp("127.8.9.10:2"), true},
		{tcp("127.0.0.1:1"), tcp("[::1]:2"), true},
		{tcp("127.0.0.1:1"), tcp("[::ffff:127.0.0.1]:2"), true},
		{tcp("10.0.0.1:1"), tcp("10.0.0.1:2"), true},
		{tcp("10.0.0.1:1"), tcp("[::ffff:10.0.0.1]:2"), true},
		{tcp("10.0.0.1:1"), tcp("10.0.0.2:1"), false},
		{tcp("[2001:db8::1]:1"), tcp("[2001:db8::2:3]:1"), true},
		{tcp("[2001:db8::1]:1"), tcp("[2001:db8:0:1::1]:1"), false},
		{tcp("[fe80::1%eth0]:1"), tcp("[fe80::1%eth1]:1"), true},
		{&net.UnixAddr{Name: "@"}, &net.UnixAddr{Name: "/x"}, true},
		{&net.UnixAddr{Name: "@"}, tcp("127.0.0.1:1"), false},
		{&net.TCPAddr{}, &net.UnixAddr{}, true},
	} {
		if got := SourceOf(c.a) == SourceOf(c.b); got != c.same {
			t.Errorf("%v and %v are one source: %v; want %v", c.a, c.b, got, c.same)
		}
	}
}

func TestABucketFillsInTime(t *testing.T) {
	now := time.Unix(1000, 0)
	b := Bucket{Burst: 3, Every: time.Second}
	take := func(want int) {
		t.Helper()
		got := 0
		for got < 100 && b.Take(now) {
			got++
		}
		if got != want {
			t.Errorf("it lets %d happen; want %d", got, want)
		}
	}
	take(3)
	take(0)
	b.Return()
	take(1)
	now = now.Add(2 * time.Second)
	take(2)
	now = now.Add(time.Hour)
	if !b.Full(now) {
		t.Error("it is not full after an hour")
	}
	take(3)
	now = now.Add(-time.Minute) // a clock that goes back
	take(0)
}

// Without a bound, a host with many addresses fills the memory of a proxy.
func TestBucketsRememberAFewSources(t *testing.T) {
	now := time.Unix(1000, 0)
	b := Buckets{Most: 8, Burst: 2, Every: time.Second}
	guesser := SourceOf(tcp("10.0.0.1:1"))
	b.Take(guesser, now)
	b.Take(guesser, now)
	for i := range 100 {
		other := SourceOf(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 1)))
		if !b.Take(other, now) {
			t.Errorf("source %d may do nothing", i)
		}
	}
	if len(b.all) > 8 {
		t.Errorf("%d sources are remembered; want at most 8", len(b.all))
	}
	if b.Take(guesser, now) {
		t.Error("a source that spent all is forgotten while others spent less")
	}
	b.Return(guesser)
	if !b.Take(guesser, now) {
		t.Error("what is returned is not there again")
	}
}

func TestALogSaysHowManyLinesItLacks(t *testing.T) {
	var l Lines
	now, printed := time.Unix(1000, 0), 0
	for range 1000 {
		if _, ok := l.Print("a", now); ok {
			printed++
		}
	}
	if printed != limits.LogLines {
		t.Errorf("%d lines are printed; want %d", printed, limits.LogLines)
	}
	if _, ok := l.Print("b", now); !ok {
		t.Error("a line of another kind is not printed")
	}
	if missed, ok := l.Print("a", now.Add(limits.LogEvery)); !ok || missed != 1000-limits.LogLines {
		t.Errorf("printed %v, %d missed; want %d", ok, missed, 1000-limits.LogLines)
	}
}
