package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	weft "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/daemon"
	"github.com/weftnet/weft/internal/fabric/fabrictest"
	"github.com/weftnet/weft/internal/link/xdp"
	"github.com/weftnet/weft/internal/registry/file"
	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

const (
	// unreachableAfter is the value of these tests' daemons. It is long: a daemon that a busy
	// machine does not run is not gone.
	unreachableAfter = 20 * time.Second

	// soonUnreachable is the value of daemons that are killed.
	soonUnreachable = 2 * time.Second

	// patience bounds waits that end soon unless something is broken.
	patience = time.Minute
)

// The test binary runs itself as a daemon or as a client. The variable then holds its role.
const roleVariable = "WEFT_DAEMON_TEST_ROLE"

func TestMain(m *testing.M) {
	if isKeeper() {
		if err := keep(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "keeper:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	role, arg, _ := strings.Cut(os.Getenv(roleVariable), "=")
	if f := roles[role]; f != nil {
		if err := f(arg); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(fabrictest.Run(m))
}

// roles holds the roles of child processes. Each prints "ready" when it is ready.
var roles = map[string]func(arg string) error{
	"daemon": func(arg string) error {
		var c daemon.Config
		if err := json.Unmarshal([]byte(arg), &c); err != nil {
			return err
		}
		d, err := daemon.New(c, os.Stderr)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		return d.Run(context.Background())
	},
	// NAME at SOCKET: waits for a message that does not come
	"client": func(arg string) error {
		name, socket, _ := strings.Cut(arg, " at ")
		p, err := attach(context.Background(), socket, name)
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, err = p.Recv(context.Background(), weft.AnyProcess, 999, make([]byte, 1))
		return err
	},
	"crowd": func(arg string) error { // N at SOCKET: N processes that do nothing
		n, socket, _ := strings.Cut(arg, " at ")
		many, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		for i := range many {
			if _, err := attach(context.Background(), socket, fmt.Sprintf("crowd/%d", i)); err != nil {
				return err
			}
		}
		fmt.Println("ready")
		return hang()
	},
	"sharer": func(socket string) error { // shares segment 2 until it is killed
		p, err := attach(context.Background(), socket, "sharer/0")
		if err != nil {
			return err
		}
		s, err := p.SharedSegment(2, 200)
		if err != nil {
			return err
		}
		copy(s.Bytes(), "hello")
		fmt.Println("ready")
		return hang()
	},
	// NIC at SOCKET: loads a program into a NIC; 0 is the NIC of the socket
	"loader": func(arg string) error {
		nic, socket, _ := strings.Cut(arg, " at ")
		id, err := strconv.ParseUint(nic, 10, 64)
		if err != nil {
			return err
		}
		p, err := attach(context.Background(), socket, "loader/0")
		if err != nil {
			return err
		}
		m, err := pdl.Compile("turn.pdl", []byte(turnSource))
		if err != nil {
			return err
		}
		_, err = program.On(p).Load(context.Background(), []weft.NICID{weft.NICID(id)}, m.Encode(), program.Options{Start: true})
		fmt.Println("ready")
		return err
	},
	"outsider": func(socket string) error {
		_, err := attach(context.Background(), socket, "outsider/0")
		if errors.Is(err, weft.ErrNotPermitted) {
			fmt.Print("not permitted: ")
		}
		fmt.Println("ready")
		return err
	},
}

// child runs a role in a new process and waits until it is ready.
func child(t *testing.T, role, arg string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	return begin(t, c, c.Start, role, arg)
}

// begin starts the test binary in a role by calling start, and waits until it is ready.
func begin(t *testing.T, c *exec.Cmd, start func() error, role, arg string) *exec.Cmd {
	t.Helper()
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, roleVariable+"="+role+"="+arg)
	c.Stderr = &logWriter{t: t, prefix: role + ": "}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.Contains(line, xdp.ErrUnavailable.Error()) {
		t.Skip(line)
	}
	if err != nil || line != "ready\n" {
		t.Fatalf("%s: %q, %v", role, line, err)
	}
	return c
}

// logWriter passes a daemon's log on to the test's, until the test ends.
type logWriter struct {
	mu     sync.Mutex
	t      *testing.T
	prefix string
	done   bool
	text   bytes.Buffer
}

func (w *logWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if !w.done {
		w.t.Log(w.prefix + strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func (w *logWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
}

func (w *logWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// configs returns the configurations of n daemons that know one another, with free ports.
func configs(t *testing.T, n int) []daemon.Config {
	t.Helper()
	dir := t.TempDir()
	all := make([]daemon.Config, n)
	var nodes []file.Entry
	for i := range all {
		all[i] = daemon.Config{Socket: filepath.Join(dir, fmt.Sprintf("%d.sock", i)), Listen: testenv.Loopback(t),
			UnreachableAfter: daemon.Duration(unreachableAfter)}
		nodes = append(nodes, file.Entry{Address: all[i].Listen})
	}
	for i := range all {
		all[i].Nodes = nodes
	}
	granting(t, all, "observe")
	return all
}

// granting makes daemons grant one another roles: a daemon of root grants none by itself.
func granting(t *testing.T, all []daemon.Config, roles ...string) {
	t.Helper()
	for i := range all {
		all[i].Grants = make(map[string][]string)
		for k := range all {
			if k != i {
				all[i].Grants[staticKey(t, all[k]).Public().ID().String()] = roles
			}
		}
	}
}

// run runs daemons inside the test.
func run(t *testing.T, configs ...daemon.Config) *logWriter {
	t.Helper()
	w := &logWriter{t: t}
	for _, c := range configs {
		d, err := daemon.New(c, w)
		if err != nil {
			t.Fatal(err)
		}
		serve(t, w, d)
	}
	return w
}

// serve runs a daemon until the test ends.
func serve(t *testing.T, w *logWriter, d *daemon.Daemon) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		w.stop()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error("daemon:", err)
			}
		case <-time.After(patience):
			t.Error("the daemon does not end")
		}
	})
}

func attach(ctx context.Context, socket, name string) (*weft.Process, error) {
	n, err := weft.ParseName(name)
	if err != nil {
		return nil, err
	}
	return weft.Attach(ctx, weft.AttachConfig{Socket: socket, Name: n})
}

func mustAttach(t *testing.T, c daemon.Config, name string) *weft.Process {
	t.Helper()
	p, err := attach(t.Context(), c.Socket, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func name(t *testing.T, s string) weft.Name {
	t.Helper()
	n, err := weft.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wait waits until p knows a name.
func wait(t *testing.T, p *weft.Process, other string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := p.WaitName(ctx, name(t, other)); err != nil {
		t.Fatalf("waiting for %s: %v", other, err)
	}
}

// heeded waits until p's NIC has read all commands of p: a message to itself comes after them in
// the queue.
func heeded(t *testing.T, p *weft.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const tag = 1 << 40
	if err := p.Send(ctx, p.Name(), tag, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Recv(ctx, p.Name(), tag, nil); err != nil {
		t.Fatal(err)
	}
}

// payload returns n bytes that differ for each seed.
func payload(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// ends waits for an error that comes soon.
func ends(t *testing.T, what string, errs <-chan error) error {
	t.Helper()
	select {
	case err := <-errs:
		return err
	case <-time.After(patience):
		t.Fatalf("%s does not end", what)
		return nil
	}
}

// stopwatch checks the bound on a time that users are promised. The lateness of the machine does
// not count.
type stopwatch struct {
	began time.Time
	late  *testenv.Meter
}

func startWatch(t *testing.T) stopwatch { return stopwatch{time.Now(), testenv.WatchLateness(t)} }

func (w stopwatch) took() time.Duration { return time.Since(w.began) - w.late.Total() }

// within fails the test if more than d has passed.
func (w stopwatch) within(t *testing.T, what string, d time.Duration) {
	t.Helper()
	took := w.took()
	t.Logf("%s after %v", what, took.Round(time.Millisecond))
	if took > d {
		t.Errorf("%s after %v; expected %v at most", what, took, d)
	}
}

// start runs f in a goroutine, and returns a channel that gets its result.
func start(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}
