package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/testbed"
)

var churnSeed = flag.Uint64("churn", 0, "the seed of what happens to hosts that change; 0 draws one")

const churnHosts = 3

// Three hosts change at random: addresses, links, pauses, limits of memory and of processor
// time, ends of NICs. An application on each host sends to the others and checks every byte. No
// message comes twice, altered or out of order. Every message reported as delivered has arrived,
// and each error names its cause. The long form takes half an hour:
//
//	go test ./cmd/weft -run HostsThatChange -timeout 1h -args -long -churn SEED
func TestHostsThatChangeLoseNothing(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	tb, err := testbed.New(testbed.Config{Hosts: churnHosts})
	if errors.Is(err, testbed.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tb.Close() }) // after the hosts, whose daemons would start again
	lasting, seed := 15*time.Second, *churnSeed
	switch {
	case *long:
		lasting = 30 * time.Minute
	case testing.Short():
		lasting = 8 * time.Second
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d; once more: go test ./cmd/weft -run %s -args -churn %d", seed, t.Name(), seed)

	hosts := make([]*churnHost, churnHosts)
	for i := range hosts {
		hosts[i] = startChurnHost(t, tb, i, seed)
	}
	end := time.Now().Add(lasting)
	var changing sync.WaitGroup
	for _, h := range hosts {
		changing.Go(func() { h.change(end) })
	}
	changing.Wait()
	reports := make([]churnReport, churnHosts)
	for _, h := range hosts {
		h.tell("stop")
	}
	for i, h := range hosts {
		if line := h.hear(2 * time.Minute); line != "stopped" {
			t.Errorf("host %d reaches not all others again: %q", i, line)
		}
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		for i, h := range hosts {
			h.tell("report")
			if err := json.Unmarshal([]byte(h.hear(patience)), &reports[i]); err != nil {
				t.Fatalf("report of host %d: %v", i, err)
			}
		}
		if missing(reports) == "" || time.Since(begun) > patience {
			break
		}
	}
	judgeChurn(t, hosts, reports)
}

// missing lists the messages that their senders took for delivered and that did not arrive.
func missing(reports []churnReport) string {
	var said []string
	for from := range reports {
		for to := range reports {
			if from == to {
				continue
			}
			if m := holes(&reports[from], &reports[to], from, to); len(m) > 0 {
				said = append(said, fmt.Sprintf("from host %d to host %d, %d messages that were delivered have not come: %d", from, to, len(m), m[:min(len(m), 10)]))
			}
		}
	}
	return strings.Join(said, "; ")
}

func judgeChurn(t *testing.T, hosts []*churnHost, reports []churnReport) {
	t.Helper()
	for i, h := range hosts {
		h.mu.Lock()
		deaths := h.deaths
		h.mu.Unlock()
		t.Logf("host %d: %v; its NIC ended %d times; sent %d, of which %d and %d and %d failed", i, h.changes, deaths, reports[i].Sent,
			len(reports[i].Failed[0]), len(reports[i].Failed[1]), len(reports[i].Failed[2]))
		for _, wrong := range reports[i].Wrong[:min(len(reports[i].Wrong), 20)] {
			t.Errorf("host %d: %s", i, wrong)
		}
		for j := range hosts {
			if n := reports[i].Sent[j] - len(reports[i].Failed[j]); j != i && n == 0 {
				t.Errorf("host %d has delivered nothing to host %d", i, j)
			}
		}
	}
	t.Logf("operations that failed:\n%s", strings.Join(allFailures(reports), "\n"))
	if what := missing(reports); what != "" {
		t.Error(what)
	}
	if t.Failed() {
		for i, h := range hosts {
			t.Logf("log of host %d:\n%s", i, h.log.String())
		}
	}
}

// churnHost is one host, with its NIC daemon and its application.
type churnHost struct {
	t     *testing.T
	tb    *testbed.Testbed
	index int
	rng   *rand.Rand
	log   lockedBuffer

	mu     sync.Mutex
	daemon *testbed.Cmd
	ended  bool // the test has ended: the daemon is not started again
	deaths int

	app     *testbed.Cmd
	in      io.Writer
	out     chan string
	changes map[string]int
	groups  map[string]string // control groups of the daemon, by controller
}

func startChurnHost(t *testing.T, tb *testbed.Testbed, index int, seed uint64) *churnHost {
	h := &churnHost{t: t, tb: tb, index: index, rng: rand.New(rand.NewPCG(seed, uint64(index))), changes: map[string]int{}, groups: map[string]string{}}
	for _, controller := range []string{"memory", "cpu"} {
		dir := filepath.Join("/sys/fs/cgroup", controller, fmt.Sprintf("weft-churn-%d-%d", os.Getpid(), index))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Logf("host %d: no limits of %s: %v", index, controller, err)
			continue
		}
		h.groups[controller] = dir
	}
	t.Cleanup(h.end)
	socket := filepath.Join(t.TempDir(), "nic")
	h.startDaemon(socket)
	h.app = tb.Host(index).Command(context.Background(), "/proc/self/exe")
	plan, err := json.Marshal(churner{Host: index, Hosts: churnHosts, Socket: socket, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	h.app.Env, h.app.Stderr = append(os.Environ(), asChurner+"="+string(plan)), &h.log
	in, err := h.app.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.app.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.in, h.out = in, make(chan string)
	if err := h.app.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.out)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			h.out <- lines.Text()
		}
	}()
	return h
}

// startDaemon starts the daemon, and starts it again when it ends.
func (h *churnHost) startDaemon(socket string) {
	args := []string{"nic", "--socket", socket, "--listen", ":7700", "--log", "warn"}
	for i := range churnHosts {
		args = append(args, "--node", h.tb.Host(i).Addr().String()+":7700")
	}
	start := func() *testbed.Cmd {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ended {
			return nil
		}
		d := h.tb.Host(h.index).Command(context.Background(), "/proc/self/exe", args...)
		d.Env = append(os.Environ(), asWeft+"=1", "GORACE=atexit_sleep_ms=0")
		d.Stdout, d.Stderr = &h.log, &h.log
		if err := d.Start(); err != nil {
			h.t.Errorf("host %d: %v", h.index, err)
			return nil
		}
		for _, dir := range h.groups {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(d.Process.Pid)), 0); err != nil {
				h.t.Errorf("host %d: %v", h.index, err)
			}
		}
		h.daemon = d
		return d
	}
	if d := start(); d != nil {
		go func() {
			for d != nil {
				_ = d.Wait() // its successor's log shows the end
				h.mu.Lock()
				if !h.ended {
					h.deaths++
					fmt.Fprintf(&h.log, "test: the daemon ended: %v\n", d.ProcessState)
				}
				h.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				d = start()
			}
		}()
	}
}

// end ends both programs and removes the control groups.
func (h *churnHost) end() {
	h.mu.Lock()
	h.ended = true
	for _, c := range []*testbed.Cmd{h.daemon, h.app} {
		if c != nil && c.Process != nil {
			_ = c.Process.Kill()
		}
	}
	h.mu.Unlock()
	if h.app != nil && h.app.Process != nil {
		_ = h.app.Wait()
	}
	for _, dir := range h.groups {
		deadline := time.Now().Add(patience)
		for err := os.Remove(dir); err != nil && time.Now().Before(deadline); err = os.Remove(dir) {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (h *churnHost) tell(line string) {
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.t.Errorf("telling host %d: %v", h.index, err)
	}
}

func (h *churnHost) hear(within time.Duration) string {
	select {
	case line := <-h.out:
		return line
	case <-time.After(within):
		h.t.Errorf("host %d says nothing", h.index)
		return ""
	}
}

// change changes the host again and again, and leaves it as it was.
func (h *churnHost) change(end time.Time) {
	changes := []struct {
		name string
		do   func(hold func())
	}{
		{"source", h.otherSource}, {"address", h.withoutAddress}, {"link", h.withoutLink}, {"pause of the NIC", h.pauseNIC},
		{"pause of the application", h.pauseApp}, {"memory", h.littleMemory}, {"processor", h.littleTime}, {"end of the NIC", h.killNIC},
	}
	for time.Now().Before(end) {
		time.Sleep(h.drawn(2 * time.Second))
		c := changes[h.rng.IntN(len(changes))]
		lasting := h.drawn(500 * time.Millisecond)
		if h.rng.IntN(3) == 0 {
			lasting = h.drawn(6 * time.Second) // long enough that others find a NIC silent
		}
		h.changes[c.name]++
		fmt.Fprintf(&h.log, "test: %s %s for %v\n", time.Now().UTC().Format("15:04:05.000"), c.name, lasting)
		c.do(func() { time.Sleep(lasting) })
	}
}

func (h *churnHost) drawn(most time.Duration) time.Duration {
	return time.Duration(h.rng.Int64N(int64(most)))
}

// ip runs ip on the host.
func (h *churnHost) ip(line string) {
	out, err := h.tb.Host(h.index).Command(context.Background(), "ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		h.t.Errorf("host %d: ip %s: %v: %s", h.index, line, err, out)
	}
}

// otherSource gives outgoing frames another source address, while the first address stays.
func (h *churnHost) otherSource(hold func()) {
	first, other := h.tb.Host(h.index).Addr(), fmt.Sprintf("10.87.100.%d", h.index+1)
	h.ip("address add " + other + "/32 dev eth0")
	h.ip("route change 10.87.0.0/16 dev eth0 src " + other)
	hold()
	h.ip("route change 10.87.0.0/16 dev eth0 src " + first.String())
	h.ip("address del " + other + "/32 dev eth0")
}

func (h *churnHost) withoutAddress(hold func()) {
	address := h.tb.Host(h.index).Addr().String() + "/16 dev eth0"
	h.ip("address del " + address)
	hold()
	h.ip("address add " + address)
}

func (h *churnHost) withoutLink(hold func()) {
	if err := h.tb.RemoveLink(h.index); err != nil {
		h.t.Errorf("host %d: %v", h.index, err)
		return
	}
	hold()
	if err := h.tb.RestoreLink(h.index); err != nil {
		h.t.Errorf("host %d: %v", h.index, err)
	}
}

func (h *churnHost) pauseNIC(hold func()) {
	h.mu.Lock()
	d := h.daemon
	h.mu.Unlock()
	pause(d, hold)
}

func (h *churnHost) pauseApp(hold func()) { pause(h.app, hold) }

func pause(c *testbed.Cmd, hold func()) {
	_ = c.Process.Signal(syscall.SIGSTOP) // it may have ended
	hold()
	_ = c.Process.Signal(syscall.SIGCONT)
}

// killNIC kills the NIC as the kernel does when memory runs out.
func (h *churnHost) killNIC(hold func()) {
	h.mu.Lock()
	d := h.daemon
	h.mu.Unlock()
	_ = d.Process.Kill() // it may have ended
	hold()
}

// littleMemory limits the NIC's memory to at most 2 MiB more than it has, or less than it has.
// The kernel may kill it.
func (h *churnHost) littleMemory(hold func()) {
	dir := h.groups["memory"]
	if dir == "" {
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, "memory.usage_in_bytes"))
	used, e := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err := errors.Join(err, e); err != nil {
		h.t.Errorf("host %d: %v", h.index, err)
		return
	}
	limit := filepath.Join(dir, "memory.limit_in_bytes")
	// refused if the NIC has more memory by now
	_ = os.WriteFile(limit, []byte(strconv.FormatInt(used+h.rng.Int64N(4<<20)-2<<20, 10)), 0)
	hold()
	if err := os.WriteFile(limit, []byte("-1"), 0); err != nil {
		h.t.Errorf("host %d: %v", h.index, err)
	}
}

// littleTime leaves the NIC 2 to 20 % of a processor.
func (h *churnHost) littleTime(hold func()) {
	dir := h.groups["cpu"]
	if dir == "" {
		return
	}
	quota := filepath.Join(dir, "cpu.cfs_quota_us")
	if err := os.WriteFile(quota, []byte(strconv.Itoa(2000+h.rng.IntN(18000))), 0); err != nil {
		h.t.Errorf("host %d: %v", h.index, err)
		return
	}
	hold()
	if err := os.WriteFile(quota, []byte("-1"), 0); err != nil {
		h.t.Errorf("host %d: %v", h.index, err)
	}
}
