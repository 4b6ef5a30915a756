package weft_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/fabric/fabrictest"
	"github.com/weftnet/weft/internal/testbed"
	"github.com/weftnet/weft/internal/testenv"
	"golang.org/x/sys/unix"
)

// The test binary runs itself as a process with its own NIC that echoes messages. If the variable
// is set, it holds the configuration of this process.
const echoVariable = "WEFT_TEST_ECHO"

func TestMain(m *testing.M) {
	if c := os.Getenv(echoVariable); c != "" {
		if err := echoForEver(c); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	os.Exit(fabrictest.Run(m))
}

// echoForEver opens a NIC, prints its address, and sends every message back to its sender.
func echoForEver(config string) error {
	var c weft.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx := context.Background()
	p, err := weft.Open(ctx, c)
	// The kernel releases the queue of an AF_XDP socket with a delay, also after its process was
	// killed.
	for end := time.Now().Add(time.Minute); errors.Is(err, unix.EBUSY) && time.Now().Before(end); {
		p, err = weft.Open(ctx, c)
	}
	if err != nil {
		return err
	}
	fmt.Println(p.NIC().Addr())
	for buf := make([]byte, 1<<20); ; {
		m, err := p.Recv(ctx, weft.AnyProcess, weft.AnyTag, buf)
		if err == nil {
			err = p.Send(ctx, m.From, m.Tag, buf[:m.Len])
		}
		if err != nil && !errors.Is(err, weft.ErrUnreachable) && !errors.Is(err, weft.ErrProcessGone) {
			return err
		}
	}
}

// echoing starts such a process. It returns functions that stop, continue and kill the process,
// and the address of its NIC.
func echoing(t *testing.T, h *testbed.Host, c weft.Config) (stop func() (goOn func()), kill func(), addr string) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd, start := exec.Command("/proc/self/exe"), (*exec.Cmd).Start
	if h != nil {
		there := h.Command(context.Background(), "/proc/self/exe")
		cmd, start = there.Cmd, func(*exec.Cmd) error { return there.Start() }
	}
	cmd.Env = append(os.Environ(), echoVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	stop = func() (goOn func()) {
		if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// One thread is signalled, and stops the others.
		if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
			t.Fatal(err)
		}
		return func() { _ = cmd.Process.Signal(unix.SIGCONT) }
	}
	kill = func() { cmd.Process.Kill(); cmd.Wait() }
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.Contains(line, "AF_XDP unavailable") {
		t.Skip(line)
	}
	if err != nil || strings.HasPrefix(line, "failed") {
		t.Fatalf("the process says %q, %v", line, err)
	}
	return stop, kill, strings.TrimSpace(line)
}

// place returns the host and the address of a NIC that keeps its address when it restarts.
func place(t *testing.T, n *network) (h *testbed.Host, listen string) {
	t.Helper()
	h, listen = n.host()
	switch listen {
	case "shm:":
		listen = fmt.Sprintf("shm:%s/%d", t.Name()[strings.LastIndexByte(t.Name(), '/')+1:], os.Getpid())
	case "":
		listen = testenv.Loopback(t)
	}
	return h, listen
}

// echo is a process of another program, with its own NIC, that sends every message back.
type echo struct {
	weft.Config
	host *testbed.Host
	stop func() (goOn func())
	kill func()
}

// besideEcho starts an echo on another NIC, and a process here that has exchanged messages with
// it.
func besideEcho(t *testing.T, n *network, unreachableAfter time.Duration) (ctx context.Context, p *weft.Process, other echo) {
	t.Helper()
	if n.onSwitch() {
		t.Skip("a switch joins NICs of one program")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	h, listen := place(t, n)
	link, err := weft.ParseLink(listen)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "nic.key")
	// The same key, so that it is the same NIC after each restart.
	key, err := fabric.StaticKeyFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	id := weft.NICID(key.Public().ID())
	other = echo{host: h, Config: weft.Config{
		Name: weft.Name{App: "echo"}, Key: keyFile, Link: link, Faults: n.Faults, UnreachableAfter: unreachableAfter,
	}}
	var addr string
	other.stop, other.kill, addr = echoing(t, h, other.Config)
	n.add(t, func(own weft.Config) (err error) {
		own.Name, own.Nodes, own.UnreachableAfter = weft.Name{App: "near"}, []weft.Node{{ID: id, Addr: addr}}, unreachableAfter
		p, err = weft.Open(ctx, own)
		return err
	})
	t.Cleanup(func() { p.Close() })
	thereAndBack(t, ctx, p, other.Name)
	return ctx, p, other
}

func TestAKilledNICIsUnreachableAndComesBack(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		const unreachableAfter = time.Second
		ctx, p, other := besideEcho(t, n, unreachableAfter)
		other.stop() // otherwise it would receive everything before it is killed
		var receive weft.Op
		if err := p.StartRecv(&receive, other.Name, 5, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		var send weft.Op
		if err := p.Peer(other.Name).StartSendDelivered(&send, 5, make([]byte, 8<<20)); err != nil {
			t.Fatal(err)
		}
		other.kill()
		killed, late := time.Now(), testenv.WatchLateness(t)
		for what, o := range map[string]*weft.Op{"a receive": &receive, "a long send": &send} {
			if _, err := o.Wait(ctx); !errors.Is(err, weft.ErrUnreachable) {
				t.Errorf("%s ended with %v; expected %v", what, err, weft.ErrUnreachable)
			}
		}
		if d := time.Since(killed) - late.Total(); d > 2*unreachableAfter {
			t.Errorf("it took %v to notice; expected 2 × %v at most", d, unreachableAfter)
		}
		other.Nodes = []weft.Node{{ID: p.NIC().ID(), Addr: p.NIC().Addr()}}
		echoing(t, other.host, other.Config) // the same NIC, restarted
		thereAndBack(t, ctx, p, other.Name)
	})
}

// A stopped process answers as little as a process that is gone. When it continues, its peers can
// communicate with it again.
func TestAStoppedNICIsUnreachableUntilItGoesOn(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, p, other := besideEcho(t, n, 500*time.Millisecond)
		goOn := other.stop()
		if err := p.Peer(other.Name).SendDelivered(ctx, 5, make([]byte, 8<<20)); !errors.Is(err, weft.ErrUnreachable) {
			t.Errorf("a long send to a process that is stopped: %v; expected %v", err, weft.ErrUnreachable)
		}
		goOn()
		thereAndBack(t, ctx, p, other.Name)
	})
}

// thereAndBack sends messages to a process that echoes, and compares the replies.
func thereAndBack(t *testing.T, ctx context.Context, p *weft.Process, echo weft.Name) {
	t.Helper()
	if _, err := p.WaitName(ctx, echo); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	for i, size := range []int{0, 1, 700, 2000, 30_000, 500_000, 1 << 20} {
		want := pattern(uint64(i), size)
		if err := p.Send(ctx, echo, 1, want); err != nil {
			t.Fatalf("send of %d bytes: %v", size, err)
		}
		if m, err := p.Recv(ctx, echo, 1, buf); err != nil || string(buf[:m.Len]) != string(want) {
			t.Fatalf("of %d bytes %d have come back, or others: %v", size, m.Len, err)
		}
	}
}
