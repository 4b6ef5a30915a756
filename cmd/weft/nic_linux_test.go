package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/ctl"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/internal/vni"
)

func TestWrongNICConfigurationsAreRefusedByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nic.toml")
	if err := os.WriteFile(file, []byte("listen = \"127.0.0.1:7700\"\nspeed = \"fast\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	latency := filepath.Join(t.TempDir(), "latency.toml")
	if err := os.WriteFile(latency, []byte("link = \"auto\"\nprefer = \"latency\"\nlisten = \"here:x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	named0 := filepath.Join(t.TempDir(), "named.toml")
	if err := os.WriteFile(named0, []byte("prefer = \"latency\"\nlink = \"auto\"\n[links.fast0]\nlisten = \"there:x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "good.toml")
	if err := os.WriteFile(good, []byte("[links.fast0]\nlisten = \"127.0.0.1\"\n[links.slow0]\nlisten = \"127.0.0.2\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const named = `prefer: "latency" has a link named already; expected link = "auto"`
	for _, c := range []struct{ line, want string }{
		{"nic --config " + latency, "configuration " + latency + `, with the flags: line 3: listen: address "here:x": expected HOST or HOST:PORT`},
		// the file's prefer does not apply then
		{"nic --config " + latency + " --link udp", "configuration " + latency + `, with the flags: line 3: listen: address "here:x": expected HOST or HOST:PORT`},
		{"nic --config " + latency + " --link udp --prefer latency", "configuration " + latency + ", with the flags: " + named},
		{"nic --prefer latency", named},
		{"nic --link auto --prefer latency --listen here:x", `listen: address "here:x": expected HOST or HOST:PORT`},
		{"nic --prefer speed", `invalid argument "speed" for "--prefer" flag: expected one of bandwidth, latency`},
		{"nic --nope", "unknown flag: --nope"},
		{"nic --link tcp", `link: no link is called "tcp"; expected one of auto, udp, xdp, xdp-generic`},
		{"nic --config " + named0 + " --link fast1 --listen 127.0.0.1:0", "configuration " + named0 + `, with the flags: line 4: links.fast0.listen: address "there:x": expected HOST or HOST:PORT, such as 10.0.0.2, host-2:7700 or [fe80::2]:7700, and a PORT up to 65535
link: no link is called "fast1"; expected one of auto, udp, xdp, xdp-generic, fast0`},
		{"nic --config " + named0 + " --link fast0", "configuration " + named0 + `, with the flags: line 4: listen: address "there:x": expected HOST or HOST:PORT`},
		// the flag overrides the file
		{"nic --config " + named0 + " --link fast0 --listen here:x", "configuration " + named0 + `, with the flags: listen: address "here:x": expected HOST or HOST:PORT`},
		{"nic --config " + good + " --link fast0,fast1", "configuration " + good + `, with the flags: link: "fast1"; behind the first link expected the name of a [links.NAME]: fast0, slow0`},
		{"nic --config " + good + " --link fast0,slow0 --listen 127.0.0.2:7700", "configuration " + good + `, with the flags: link slow0: line 4: listen: 127.0.0.2:7700, where link fast0 listens too`},
		{"nic --listen here:x", `listen: address "here:x": expected HOST or HOST:PORT`},
		{"nic --node here:x", `--node: address "here:x": expected HOST or HOST:PORT`},
		{"nic --id 7", `id: NIC id "7": expected eight decimal octets`},
		{"nic --unreachable-after 1", `invalid argument "1" for "--unreachable-after" flag: expected a length of time`},
		{"nic --config " + file, "configuration " + file + `: line 2: unknown key "speed"; expected id, socket`},
		{"nic --key-file /no/such/file", "key_files: fabric key: open /no/such/file: no such file or directory; make it by weft fabric init --file /no/such/file, or name another"},
		{"nic --certificate /no/such/file", "certificate: certificate: open /no/such/file"},
		{"nic --authority weftcapub1-x", "authorities: authority's public key: "},
		{"nic --revocations /no/such/file", "revocations: no authority is named"},
		{"nic --seed here:x", `gossip.seeds: address "here:x": expected HOST or HOST:PORT`},
		{"nic --gossip-listen here:x", `gossip.listen: address "here:x": expected HOST or HOST:PORT`},
		{"nic --gossip-key /no/such/file", "gossip.key_file: the gossip has no key of its own any more"},
		{"nic --failure-timeout 1", `invalid argument "1" for "--failure-timeout" flag: expected a length of time`},
		{"nic --capture x --capture-limit 7", `invalid argument "7" for "--capture-limit" flag: expected a whole number from 4096`},
		{"nic --capture x --capture-snap 0", `invalid argument "0" for "--capture-snap" flag: expected a whole number from 1 to 65536`},
		{"nic --capture-snap 64", "capture: no file is named"},
		{"nic --config /no/such/file", "configuration: open /no/such/file"},
		{"nic nope", `unknown command "nope" for "weft nic"`},
		{"stat --nic=", `invalid argument "" for "--nic" flag: expected the id of a NIC, such as`},
		{"nodes --nic 0:0:0:0:0:0:0:7 --check", "--check with --nic: expected one of them, since a NIC checks only for tools of its own host"},
		{"stat --watch soon", `invalid argument "soon" for "--watch" flag: expected a length of time`},
	} {
		status, _, stderr := weft(strings.Fields(c.line)...)
		if status != exitUsage || !strings.HasPrefix(stderr, "weft: "+c.want) {
			t.Errorf("weft %s: status %d, standard error %q; want %d and %q", c.line, status, stderr, exitUsage, c.want)
		}
	}
}

func TestToolsSayThatThereIsNoNICAndHowToStartOne(t *testing.T) {
	for _, tool := range []string{"stat", "nodes", "ps", "nic stop", "nic info", "nic links"} {
		socket := filepath.Join(t.TempDir(), "none.sock")
		status, _, stderr := weft(append(strings.Fields(tool), "--socket", socket)...)
		if status != exitFailed || !strings.Contains(stderr, socket) || !strings.Contains(stderr, "weft nic --socket") {
			t.Errorf("weft %s: status %d, standard error %q", tool, status, stderr)
		}
	}
}

// lockedBuffer takes the output of a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// nicIDAt returns the id of the NIC that will run at a socket. It makes the NIC's static key.
func nicIDAt(t *testing.T, socket string) string {
	t.Helper()
	k, err := fabric.StaticKey(strings.TrimSuffix(socket, ".sock") + ".state")
	if err != nil {
		t.Fatal(err)
	}
	return k.Public().ID().String()
}

// startNIC runs `weft nic` as a process and waits until it is up.
func startNIC(t *testing.T, args ...string) (*exec.Cmd, *lockedBuffer) {
	t.Helper()
	return startNICAs(t, func(*exec.Cmd) {}, args...)
}

// startNICAs is startNIC for a process that as changes before it starts.
func startNICAs(t *testing.T, as func(*exec.Cmd), args ...string) (*exec.Cmd, *lockedBuffer) {
	t.Helper()
	var log lockedBuffer
	c := exec.Command("/proc/self/exe", append([]string{"nic"}, args...)...)
	c.Env = append(os.Environ(), asWeft+"=1")
	c.Stderr = &log
	as(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for deadline := time.Now().Add(patience); !strings.Contains(log.String(), "NIC is up"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no NIC: %s", log.String())
		}
	}
	return c, &log
}

func TestANICIsLookedAtAndStopped(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "a.sock")
	file := filepath.Join(dir, "nic.toml")
	if err := os.WriteFile(file, []byte("id = \""+nicIDAt(t, socket)+"\"\nlisten = \"here\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// the flag overrides the file
	first, _ := startNIC(t, "--config", file, "--listen", "127.0.0.1:0", "--socket", socket)
	if status, out, stderr := weft("nodes", "--socket", socket); status != 0 || !strings.HasPrefix(out, "NIC") {
		t.Errorf("weft nodes: %d %q %q", status, out, stderr)
	}
	if status, out, stderr := weft("ps", "--socket", socket); status != 0 || !strings.HasPrefix(out, "NAME") {
		t.Errorf("weft ps: %d %q %q", status, out, stderr)
	}
	status, out, stderr := weft("stat", "--json", "--socket", socket)
	var stat struct {
		NIC      string            `json:"nic"`
		Counters map[string]uint64 `json:"counters"`
	}
	if err := json.Unmarshal([]byte(out), &stat); status != 0 || err != nil || stat.NIC != nicIDAt(t, socket) || len(stat.Counters) != len(vni.Names()) {
		t.Errorf("weft stat --json: %d %q %q %v", status, out, stderr, err)
	}
	status, out, stderr = weft("stat", "--all", "--socket", socket)
	// other proxies may run during the test
	lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(out, "\n"), "\n"), func(l string) bool { return strings.HasPrefix(l, "proxy ") })
	if status != 0 || len(lines) != len(vni.Names())+1 {
		t.Errorf("weft stat --all: %d %q %q", status, out, stderr)
	}
	if status, _, stderr := weft("nic", "--socket", socket, "--state-dir", filepath.Join(dir, "other"), "--listen", "127.0.0.1:0"); status != exitFailed ||
		!strings.Contains(stderr, "another daemon has the socket "+socket) {
		t.Errorf("a second NIC on the socket: %d %q", status, stderr)
	}
	if status, _, stderr := weft("nic", "stop", "--socket", socket); status != 0 {
		t.Errorf("weft nic stop: %d %q", status, stderr)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("the NIC ended with %v", err)
	}
}

func TestANICEndsInOrderOnATermSignalAndWatchersSeeIt(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "a.sock")
	nic, log := startNIC(t, "--listen", "127.0.0.1:0", "--socket", socket)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan int, 1)
	var out, stderr lockedBuffer
	go func() { done <- run(ctx, []string{"stat", "--watch", "20ms", "--socket", socket}, &out, &stderr) }()
	await(t, "what the watcher sees", func() bool { return out.String() != "" })
	if err := nic.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := nic.Wait(); err != nil || !strings.Contains(log.String(), "going down") {
		t.Errorf("the NIC ended with %v: %s", err, log.String())
	}
	if status := <-done; status != exitFailed || !strings.Contains(stderr.String(), "gone") {
		t.Errorf("the watcher ended with %d: %s", status, stderr.String())
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// The end of the terminal in which the NIC was started ends it. Any other SIGHUP is a request for a
// reload. A NIC started by nohup ignores the signal, as all programs do.
func TestANICReloadsOnAHangUpAndEndsInOrderWithItsTerminal(t *testing.T) {
	user, terminal := openPTY(t)
	inTerminal := func(c *exec.Cmd) {
		c.Stdin, c.SysProcAttr = terminal, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	socket := filepath.Join(t.TempDir(), "a.sock")
	// The test must not ignore the signal itself: signal.Reset does not undo signal.Ignore.
	nohup, _ := startNICAs(t, func(c *exec.Cmd) {
		inTerminal(c)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, self}, c.Args[1:]...)
	}, "--listen", "127.0.0.1:0", "--socket", socket)
	if err := nohup.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := weft("nic", "stop", "--socket", socket); status != 0 || nohup.Wait() != nil {
		t.Errorf("a NIC that is to ignore a hang-up has ended by it: %d %q", status, stderr)
	}
	// otherwise a child ignores SIGHUP if the tests are run by nohup
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	nic, log := startNICAs(t, inTerminal, "--listen", "127.0.0.1:0", "--socket", socket)
	signal.Reset(syscall.SIGHUP)
	if err := nic.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the NIC reloads", func() bool { return strings.Contains(log.String(), "configuration reloaded") })
	terminal.Close()
	user.Close()
	if err := nic.Wait(); err != nil || !strings.Contains(log.String(), "going down") {
		t.Errorf("the NIC ended with %v: %s", err, log.String())
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// The NIC cannot end in order here, since no process reads its log.
func TestASecondTermSignalKillsANIC(t *testing.T) {
	c := exec.Command("/proc/self/exe", "nic", "--listen", "127.0.0.1:0", "--socket", filepath.Join(t.TempDir(), "a.sock"))
	c.Env = append(os.Environ(), asWeft+"=1")
	log, itsEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	defer itsEnd.Close()
	c.Stderr = itsEnd
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for text, b := "", make([]byte, 4096); !strings.Contains(text, "NIC is up"); {
		n, err := log.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b[:n])
	}
	go itsEnd.Write(make([]byte, 1<<20)) // more than a pipe holds
	raw, err := itsEnd.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// a full pipe may hold less than its size: a line of the NIC may take a page
	await(t, "a full pipe", func() (full bool) {
		err := raw.Control(func(fd uintptr) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
			full = n == 0 && err == nil
		})
		return full || err != nil
	})
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for deadline := time.Now().Add(patience); ; {
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
				t.Errorf("the NIC ended with %v; want it killed by the signal", err)
			}
			return
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("signal after signal does not end it")
		}
	}
}

func TestANICIsLookedAtThroughAnotherAndNodesAreChecked(t *testing.T) { // decision 1, USNIC-61
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.sock"), filepath.Join(dir, "b.sock")
	idA, idB := nicIDAt(t, a), nicIDAt(t, b)
	_, log := startNIC(t, append(observed(t, idB), "--listen", "127.0.0.1:0", "--socket", a)...)
	_, address, _ := strings.Cut(log.String(), "address=")
	address, _, _ = strings.Cut(address, " ")
	other, _ := startNIC(t, "--listen", "127.0.0.1:0", "--socket", b, "--node", address, "--unreachable-after", "20s")
	if status, out, stderr := weft("nodes", "--check", "--socket", b); status != 0 || !strings.Contains(out, idA+"  "+address+"  ok\n") {
		t.Errorf("weft nodes --check: %d %q %q", status, out, stderr)
	}
	far := []string{"--socket", b, "--nic", idA}
	if status, out, stderr := weft(append([]string{"stat"}, far...)...); status != 0 || !strings.HasPrefix(out, "NIC "+idA+" at "+address) {
		t.Errorf("weft stat --nic: %d %q %q", status, out, stderr)
	}
	if status, out, stderr := weft(append([]string{"nodes"}, far...)...); status != 0 || !strings.Contains(out, idB) || !regexp.MustCompile(`(?m)(AES-128-GCM|ChaCha20-Poly1305) +key$`).MatchString(out) {
		t.Errorf("weft nodes --nic: %d %q %q", status, out, stderr)
	}
	if status, out, stderr := weft(append([]string{"ps"}, far...)...); status != 0 || !strings.HasPrefix(out, "NAME  SLOT  PID  SENT  RECEIVED  MEMORY  COLLECTIVES  TURNS") || strings.Count(out, "\n") != 1 {
		t.Errorf("weft ps --nic: %d %q %q", status, out, stderr)
	}
	if status, _, stderr := weft("ps", "--socket", b, "--nic", "0:0:0:0:0:0:0:3"); status != exitFailed || !strings.Contains(stderr, "NIC 0:0:0:0:0:0:0:3 is not known") {
		t.Errorf("weft ps of a NIC that is not: %d %q", status, stderr)
	}
	other.Process.Kill()
	other.Wait()
	status, out, stderr := weft("nodes", "--check", "--json", "--socket", a)
	if status != exitFailed || !strings.Contains(out, `"ok":false,"text":"`) || !strings.Contains(stderr, "1 of 1 NICs failed the check") {
		t.Errorf("weft nodes --check with a NIC that was killed: %d %q %q", status, out, stderr)
	}
}

// `weft nic stop && weft nic` once failed, since the old daemon still held the state.
func TestANICThatWasStoppedIsNotInTheWayOfTheNext(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "a.sock")
	// it does not answer, so the goodbye to its fabric takes time
	other := testenv.Loopback(t)
	for range 4 {
		_, log := startNIC(t, "--listen", "127.0.0.1:0", "--socket", socket, "--gossip-listen", "127.0.0.1:0", "--seed", other)
		if status, _, stderr := weft("nic", "stop", "--socket", socket); status != 0 {
			t.Fatalf("weft nic stop: %d %q; %s", status, stderr, log)
		}
		lock, err := ctl.LockFile(filepath.Join(dir, "a.state", "lock"))
		if err != nil {
			t.Fatalf("after weft nic stop: %v", err)
		}
		lock.Close()
	}
}

func TestAConfigurationIsCheckedWithoutBeingRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nic.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("listen = \"127.0.0.1:7700\"\n")
	if status, out, stderr := weft("nic", "--check", "--config", file); status != 0 || out+stderr != "" {
		t.Errorf("a good configuration: %d %q %q", status, out, stderr)
	}
	for text, want := range map[string]string{
		"torus = [4]\n":              "configuration " + file + ", with the flags: line 1: torus",
		"unreachable_after = 2\n":    `unreachable_after: 2ns; expected 10ms to 1h, as text such as "2s": a bare number counts nanoseconds`,
		"listen = 7700\n":            `line 1: key "listen": the value is of type integer; expected text in quotes`,
		"[vni]\ncommands = 7\n":      "expected 16 to 4096, a multiple of 8",
		"max_processes = \"many\"\n": "the value is of type string; expected a whole number",
	} {
		write(text)
		if status, _, stderr := weft("nic", "--check", "--config", file); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: %d %q; expected %q", text, status, stderr, want)
		}
	}
	if status, _, stderr := weft("nic", "--check", "--config", ""); status != exitUsage || !strings.Contains(stderr, "--config is empty: expected the name of a file") {
		t.Errorf("a variable that is not set, in place of a file: %d %q", status, stderr)
	}
}

// With a wrong configuration, the command of the packaged unit ends as docs/nic.md says.
func TestTheServiceEndsWithStatus2IfItsConfigurationIsWrong(t *testing.T) {
	_, command, found := strings.Cut(packaged(t, "systemd/weft-nic.service"), "\nExecStart=/usr/bin/weft ")
	command, _, _ = strings.Cut(command, "\n")
	args := strings.Fields(command)
	if !found || len(args) != 3 {
		t.Fatalf("the unit starts %q", command)
	}
	wrong := filepath.Join(t.TempDir(), "nic.toml")
	for _, text := range []string{"mtu = 99\n", "[[node]]\naddress = \"host.invalid\"\n"} {
		if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, _, stderr := weft(args[0], args[1], wrong); status != exitUsage {
			t.Errorf("weft %s with %q: status %d, %s; want %d", command, text, status, stderr, exitUsage)
		}
	}
}
