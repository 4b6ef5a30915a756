package launch_test

import (
	"flag"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/launch"
	"github.com/weftnet/weft/internal/launch/launchtest"
	"github.com/weftnet/weft/internal/simulated"
	"github.com/weftnet/weft/internal/vni"
	"github.com/weftnet/weft/sim"
)

var long = flag.Bool("long", false, "run the long forms")

// The test measures a launch on many hosts, on a network whose latency is long compared to
// everything else, so a round is a latency. The NICs know only the launcher's NIC: if each knew
// all others, the gossip of names alone would send a million messages. The protocol needs no
// more, because the hosts of a job exchange nothing with one another to start. The rounds include
// those in which NICs ask one another for credit, before the first message between two processes.
// The names of the keepers are confirmed before. That takes two rounds more, if all NICs know one
// another.
func TestALaunchTakesThreeMessagesAHostAndFewRounds(t *testing.T) {
	const latency = 10 * time.Millisecond
	hosts := 256
	if *long {
		hosts = 1024
	}
	g := vni.DefaultGeometry(true)
	g.Contexts, g.Commands = 1024, 4096
	hooks := simulated.Hooks{Peers: func(a, b int) bool { return a == 0 || b == 0 }, Geometry: g}
	cfg := sim.Config{Seed: sim.Seed(1), NICs: hosts, UnreachableAfter: time.Minute,
		Link: sim.Link{Latency: latency, Jitter: time.Nanosecond, Bandwidth: 100e9, SendQueue: 64 << 20, RecvQueue: 64 << 20}}
	w := launchtest.New(simulated.Hooked(cfg, hooks), 1)
	w.Program = sleeps(10 * time.Second)

	var began, ended time.Duration
	var before, after []uint64
	check := func() { after = messages(w.F, hosts) }
	ranks := 0
	w.At = func(e launchtest.Event) {
		if e.What == "rank" {
			ended = w.F.Elapsed()
			if ranks++; ranks == hosts {
				w.F.After(0, check)
			}
		}
	}
	status := -1
	begin := func(*launch.Control) { began, before = w.F.Elapsed(), messages(w.F, hosts) }
	w.Warm(w.Options(1))
	w.Launch(w.Options(1), launchtest.NewConsole(), begin, func(r *launch.Result) { status = r.Status })
	if err := w.F.Run(time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(); err != nil || status != 0 || ranks != hosts {
		t.Fatalf("status %d, %d ranks: %v", status, ranks, err)
	}
	most := uint64(0)
	for h := 1; h < hosts; h++ {
		most = max(most, after[h]-before[h])
	}
	rounds := float64(ended-began) / float64(latency)
	t.Logf("%d hosts: %d messages a host, %.1f rounds", hosts, most, rounds)
	if most != 3 {
		t.Errorf("a host sent and received %d messages until all ranks ran; expected a reservation, an answer and a start", most)
	}
	if rounds > 10 {
		t.Errorf("the last rank ran after %.1f message delays; expected at most 10, and 12 with the names", rounds)
	}
}

// messages returns how many messages the processes of each host have sent and received.
func messages(f *sim.Fabric, hosts int) []uint64 {
	n := make([]uint64, hosts)
	for h := range hosts {
		for _, p := range simulated.Engine(f, h).Processes() {
			n[h] += p.Sent + p.Received
		}
	}
	return n
}
