package userfault

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/userfault/faulttest"
)

var long = flag.Bool("long", false, "run the long forms of tests")

// The pager and the program are always different processes: this test is one of them, and runs
// itself as the other.
const (
	socketVariable = "WEFT_TEST_SOCKET"
	roleVariable   = "WEFT_TEST_ROLE"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role, os.Getenv(socketVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play runs this test as another process in a role.
func play(role, socket string) error {
	if role == "pager" {
		l, err := net.ListenUnix(Network, &net.UnixAddr{Name: socket, Net: Network})
		if err != nil {
			return err
		}
		p, err := New(Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10})
		if err != nil {
			return err
		}
		fmt.Println("ready")
		return p.Serve(context.Background(), l)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := Attach(ctx, socket)
	if err != nil {
		return err
	}
	switch mem := m.Bytes(); role {
	case "use":
		n, err := faulttest.Use(mem, 4, len(mem)/4096)
		if err != nil {
			return err
		}
		fmt.Printf("%d bytes, %d collections\n", len(mem), n)
	case "zeros":
		if i := bytes.IndexFunc(mem, func(r rune) bool { return r != 0 }); i >= 0 {
			return fmt.Errorf("byte %d is %d", i, mem[i])
		}
		clear(mem[:4096])
		copy(mem[len(mem)-10:], "not zero")
	case "again": // a process may have its memory several times in succession
		copy(mem, "not zero")
		if err := m.Close(); err != nil {
			return err
		}
		if m, err = Attach(ctx, socket); err != nil {
			return err
		}
		if m.Bytes()[0] != 0 {
			return errors.New("the memory is not new")
		}
	case "kernel": // system calls read and write it
		return useByKernel(mem)
	case "remove":
		mem[0] = 1
		if err := unix.Madvise(mem[:4096], unix.MADV_REMOVE); err != nil {
			return err
		}
		return fmt.Errorf("the first byte is %d", mem[0])
	case "hold":
		for i := range mem {
			mem[i] = byte(i >> 12)
		}
		fmt.Println("ready")
		for sum := byte(0); ; {
			for i := range mem {
				sum += mem[i]
			}
			mem[0] = sum
		}
	}
	return m.Close()
}

// useByKernel makes the kernel touch pages.
func useByKernel(mem []byte) error {
	f, err := os.CreateTemp("", "weft-test-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for i := range mem {
		mem[i] = byte(i>>12 ^ i)
	}
	if _, err := f.Write(mem); err != nil {
		return err
	}
	clear(mem)
	if _, err := f.ReadAt(mem, 0); err != nil {
		return err
	}
	for i, b := range mem {
		if b != byte(i>>12^i) {
			return fmt.Errorf("byte %d is %d, as it was not written", i, b)
		}
	}
	return nil
}

const patience = 2 * time.Minute

// device is a device in memory.
type device struct {
	mu     sync.Mutex
	b      []byte
	fail   error
	asks   int // calls of ReadMany
	reads  int
	writes int
}

func (d *device) Size() int64 { return int64(len(d.b)) }

func (d *device) ReadMany(_ context.Context, bufs [][]byte, offsets []int64, done func(i int, err error), beforeWait func()) {
	d.mu.Lock()
	d.asks++
	d.mu.Unlock()
	for i, b := range bufs {
		if i == len(bufs)/2 {
			beforeWait()
		}
		done(i, d.read(b, offsets[i]))
	}
}

func (d *device) read(b []byte, offset int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	copy(b, d.b[offset:])
	return d.fail
}

func (d *device) WriteAtContext(_ context.Context, b []byte, offset int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.fail != nil {
		return 0, d.fail
	}
	return copy(d.b[offset:], b), nil
}

func (d *device) Discard(_ context.Context, offset, n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.b[offset:][:n])
	return nil
}

func (d *device) fails(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(s + "\n")
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve starts a pager on a device, and returns the pager and its socket.
func serve(t *testing.T, cfg Config) (p *Pager, socket string) {
	t.Helper()
	if err := Check(); err != nil {
		t.Skip(err)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix(Network, &net.UnixAddr{Name: socket, Net: Network})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p, socket
}

// program returns a command that runs this test in another role.
func program(t *testing.T, role, socket string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), roleVariable+"="+role, socketVariable+"="+socket)
	return c
}

func TestAProgramThatCollectsGarbageHasItsMemoryPagedByAnotherProcess(t *testing.T) {
	runs := 1
	if *long {
		runs = 20
	}
	var log lines
	d := &device{b: make([]byte, 4<<20)}
	p, socket := serve(t, Config{Device: d, Page: 4096, Resident: 1 << 20, Log: log.add})
	for run := range runs {
		c := program(t, "use", socket)
		watched := watch(p)
		out, err := c.CombinedOutput()
		local, faults := watched()
		if err != nil || !bytes.HasPrefix(out, []byte("4194304 bytes, ")) {
			t.Fatalf("run %d: %v: %s%s", run, err, out, log.String())
		}
		if local > 256 || faults < 1024 {
			t.Errorf("run %d: %d pages were local at once, and there were %d faults; expected 256 at most, and one for each of 1024 pages", run, local, faults)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writes < 700*runs || d.reads < 700*runs {
		t.Errorf("%d pages were written to the device, and %d read", d.writes, d.reads)
	}
	if d.asks > d.reads*3/4 {
		t.Errorf("the device was asked %d times for %d pages; expected that it was asked for many at once", d.asks, d.reads)
	}
	if log.String() != "" {
		t.Error(log.String())
	}
}

// watch observes a pager until stop is called. stop returns the largest number of local pages at
// the same time, and the number of faults.
func watch(p *Pager) (stop func() (local int, faults uint64)) {
	var local int
	var faults uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-tick.C:
				s := p.Stats()
				local, faults = max(local, s.Mapped+s.Buffered), max(faults, s.Faults)
			}
		}
	}()
	return func() (int, uint64) {
		close(done)
		<-ended
		return local, faults
	}
}

func TestEachProgramBeginsWithZeros(t *testing.T) {
	d := &device{b: make([]byte, 1<<20)}
	_, socket := serve(t, Config{Device: d, Page: 8192, Resident: 512 << 10, Log: func(s string) { t.Log(s) }})
	for _, role := range []string{"zeros", "use", "again", "zeros"} {
		if out, err := program(t, role, socket).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", role, err, out)
		}
	}
}

func TestTheKernelTouchesThePagesOfAProgram(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a userfaultfd that has system calls wait needs root, or the permission of the system")
	}
	_, socket := serve(t, Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10})
	if out, err := program(t, "kernel", socket).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// held starts a program that has touched all of its memory and continues to touch it.
func held(t *testing.T, socket string) (c *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	c, said = program(t, "hold", socket), &bytes.Buffer{}
	c.Stderr = said
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v: %s", line, err, said)
	}
	return c, said
}

func TestAProgramWhosePagesAreGoneGetsSIGBUS(t *testing.T) {
	var log lines
	d := &device{b: make([]byte, 1<<20)}
	_, socket := serve(t, Config{Device: d, Page: 4096, Resident: 256 << 10, Log: log.add, Timeout: time.Second})
	c, said := held(t, socket)
	d.fails(errors.New("all servers are dead"))
	err := c.Wait()
	if err == nil || !strings.Contains(said.String(), "SIGBUS") {
		t.Errorf("%v: %s", err, said)
	}
	if !strings.Contains(log.String(), "a program gets SIGBUS for want of 4096 bytes at ") || !strings.Contains(log.String(), "all servers are dead") {
		t.Errorf("the log has no reason: %q", log.String())
	}
}

// If a program removes a page by itself, the page is gone, and the pager has no copy. The program
// does not hang when it touches the page.
func TestAProgramThatRemovesAPageByItselfGetsSIGBUS(t *testing.T) {
	var log lines
	_, socket := serve(t, Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10, Log: log.add})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := program(t, "remove", socket)
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Kill() })
	defer stop()
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "SIGBUS") {
		t.Errorf("%v: %s", err, out)
	}
	if !strings.Contains(log.String(), "a program gets SIGBUS at 0 of its memory: the program has removed it") {
		t.Errorf("the log has no reason: %q", log.String())
	}
}

func TestAProgramWhosePagerEndsIsKilled(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	pager := program(t, "pager", socket)
	out, err := pager.StdoutPipe()
	if err == nil {
		err = pager.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	c, said := held(t, socket)
	if err := pager.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = pager.Wait()
	err = c.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v: %s", err, said)
	}
}

func TestOneProgramHasTheMemoryAtATime(t *testing.T) {
	_, socket := serve(t, Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10})
	c, _ := held(t, socket)
	out, err := program(t, "use", socket).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another program has the memory; expected one at a time") {
		t.Errorf("%v: %s", err, out)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if out, err := program(t, "use", socket).CombinedOutput(); err != nil {
		t.Errorf("after the first has ended: %v: %s", err, out)
	}
}

// A page that exists before the pager learns of faults would be missing in the pager's count.
func TestMemoryThatHasBeenTouchedIsRefused(t *testing.T) {
	const size = 1 << 20
	_, socket := serve(t, Config{Device: &device{b: make([]byte, size)}, Page: 4096, Resident: 256 << 10})
	conn, err := net.DialUnix(Network, nil, &net.UnixAddr{Name: socket, Net: Network})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	memfd, err := receive(conn, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memfd)
	mem, err := unix.Mmap(memfd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	mem[0] = 1
	fd, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const want = `the answer is "something is in the memory at 0 already; expected that nothing has touched it, nor locked it (mlockall)"`
	if err := hand(conn, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), fd); err == nil || err.Error() != want {
		t.Errorf("%v; expected %s", err, want)
	}
}

func TestPagersThatCannotBeAreRefusedWithTheNumbers(t *testing.T) {
	for _, c := range []struct {
		size, resident int64
		page           int
		want           string
	}{
		{1<<20 + 512, 256 << 10, 4096, "memory of 1049088 bytes; expected a multiple of 4096, the size of a page"},
		{1 << 20, 256<<10 + 1, 4096, "262145 bytes resident; expected a multiple of 4096, the size of a page, and at least 262144"},
		{1 << 20, 128 << 10, 4096, "131072 bytes resident; expected a multiple of 4096, the size of a page, and at least 262144"},
		{1 << 20, 256 << 10, 8192, "262144 bytes resident; expected a multiple of 8192, the size of a page, and at least 524288"},
		{1 << 20, 2 << 20, 4096, "2097152 bytes resident; expected at most 1048576, the size of the memory"},
	} {
		if _, err := New(Config{Device: &device{b: make([]byte, c.size)}, Page: c.page, Resident: c.resident}); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// lacking is a listener that has no file for its first connections, and is closed after that.
type lacking int

func (l *lacking) AcceptUnix() (*net.UnixConn, error) {
	if *l--; *l >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return nil, net.ErrClosed
}

// While there are no files for connections, a pager waits.
func TestAPagerOutlivesWantOfFiles(t *testing.T) {
	l, said := lacking(2), []string(nil)
	if _, err := accept(t.Context(), &l, func(text string) { said = append(said, text) }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v; expected the error behind those of want", err)
	}
	if len(said) != 2 || said[0] != "a program has to wait: accept: accept4: too many open files" {
		t.Errorf("it said %q", said)
	}
}
