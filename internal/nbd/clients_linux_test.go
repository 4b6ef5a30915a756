package nbd

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

// serveSocket serves a device on a unix socket until the test ends, and returns its URI.
func serveSocket(t *testing.T, cfg Config) (uri, path string) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "nbd.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "nbd+unix:///" + cfg.Export + "?socket=" + path, path
}

// tool runs a program that speaks NBD. If this machine does not have it, tool skips the test.
func tool(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skipf("there is no %s here", args[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestNbdinfoSeesWhatIsServed(t *testing.T) {
	dev := newMemory(1 << 20)
	dev.written[3] = true
	uri, _ := serveSocket(t, Config{Device: dev, Export: "pages", Description: "some pages"})
	out := tool(t, "nbdinfo", uri)
	for _, want := range []string{"export-size: 1048576", `export="pages"`, "some pages", "base:allocation", "can_fua: true", "can_trim: true", "can_zero: true",
		"can_multi_conn: true", "can_flush: true", "can_fast_zero: true", "can_df: true", "is_read_only: false", "block_size_minimum: 1", "block_size_preferred: 4096"} {
		if !strings.Contains(out, want) {
			t.Errorf("nbdinfo does not say %q:\n%s", want, out)
		}
	}
	if out := tool(t, "nbdinfo", "--list", uri); !strings.Contains(out, `export="pages"`) {
		t.Errorf("the list has no export: %s", out)
	}
	if out := strings.Join(strings.Fields(tool(t, "nbdinfo", "--map", uri)), " "); out != "0 12288 3 hole,zero 12288 4096 0 data 16384 1032192 3 hole,zero" {
		t.Errorf("map %q", out)
	}
}

func TestNbdcopyCopiesThereAndBack(t *testing.T) {
	dev := newMemory(16 << 20)
	uri, _ := serveSocket(t, Config{Device: dev})
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	image := make([]byte, len(dev.b))
	for i := range image {
		if i>>20%3 != 1 { // with holes
			image[i] = byte(i>>12 ^ i)
		}
	}
	if err := os.WriteFile(from, image, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "nbdcopy", "--flush", "--connections=4", from, uri)
	if string(dev.b) != string(image) {
		t.Fatal("what nbdcopy wrote differs from the file")
	}
	tool(t, "nbdcopy", "--connections=4", uri, to)
	if back, err := os.ReadFile(to); err != nil || string(back) != string(image) {
		t.Errorf("what nbdcopy read differs from the file (%v)", err)
	}
}

func TestQemuReadsWritesZeroesAndTrims(t *testing.T) {
	dev := newMemory(4 << 20)
	_, path := serveSocket(t, Config{Device: dev, Export: "pages"})
	uri := "nbd+unix:///pages?socket=" + path
	out := tool(t, "qemu-io", "-f", "raw", "-d", "unmap", "-c", "write -P 0xab 1k 70k", "-c", "write -f -P 0x11 200k 4k", "-c", "read -P 0xab 1k 70k",
		"-c", "write -z 4k 8k", "-c", "write -z -u 16k 8k", "-c", "discard 32k 8k", "-c", "read -P 0 4k 8k", "-c", "read -P 0 32k 8k", "-c", "read -P 0x11 200k 4k", "-c", "flush",
		"-c", "aio_write -P 1 1M 512k", "-c", "aio_write -P 2 1536k 512k", "-c", "aio_flush", "-c", "read -P 2 1536k 512k", uri)
	if strings.Contains(out, "failed") || strings.Contains(out, "rror") {
		t.Errorf("qemu-io: %s", out)
	}
	if dev.b[1024] != 0xab || dev.b[8192] != 0 || dev.b[40960] != 0xab || dev.b[1<<20] != 1 || dev.written[8] || dev.written[9] {
		t.Error("the device does not have what qemu-io wrote")
	}
	image := filepath.Join(t.TempDir(), "image.qcow2")
	tool(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", uri, image)
	if out := tool(t, "qemu-img", "compare", "-f", "qcow2", "-F", "raw", image, uri); !strings.Contains(out, "identical") {
		t.Errorf("qemu-img: %s", out)
	}
}

// Short reads that arrive while others are in flight are carried out by the same call, as soon as
// one of the others has ended.
func TestShortReadsThatComeMeanwhileAreDoneByTheSameCall(t *testing.T) {
	dev := &together{memory: newMemory(4 * memoryBlock), hold: make(chan struct{})}
	_, path := serveSocket(t, Config{Device: dev})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := &client{t, conn, nil}
	c.begin(false)
	read := func(cookie, offset uint64) string { return string(wire(0, cmdRead, cookie, offset, 1)) }
	// The stand-in may be faster if this program does not run for a while.
	for all := 0; all < 3; all = dev.byOneCall() {
		c.send(read(1, memoryBlock), read(2, 0)) // the first read is held
		c.simple("the second", 0, 2, "\x00")
		c.send(read(3, 0))
		dev.hold <- struct{}{}
		for range 2 {
			reply := make([]byte, 17)
			if _, err := io.ReadFull(conn, reply); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFioVerifiesWhatItWrites(t *testing.T) {
	if out := tool(t, "fio", "--enghelp"); !strings.Contains(out, "nbd") {
		t.Skip("this fio has no nbd engine")
	}
	dev := &together{memory: newMemory(8 << 20)}
	uri, _ := serveSocket(t, Config{Device: dev})
	out := tool(t, "fio", "--name=verify", "--ioengine=nbd", "--uri="+uri, "--rw=randwrite", "--bs=4k", "--size=8m", "--iodepth=32", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0")
	if !strings.Contains(out, "err= 0") {
		t.Errorf("fio: %s", out)
	}
}

// greeted returns a client that has read the greeting of a server at a unix socket.
func greeted(t *testing.T, path string) *client {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := &client{t, conn, nil}
	c.greet(flagFixedNewstyle | flagNoZeroes)
	return c
}

func TestAServerHasOnlySoManyClients(t *testing.T) {
	said := make(chan string, 1)
	_, path := serveSocket(t, Config{Device: newMemory(4096), Log: func(s string) {
		select {
		case said <- s:
		default: // from a connection that ended with the test
		}
	}})
	use := func(c *client) {
		c.option(optGo, uint32(0), uint16(0))
		c.answered(optGo, repInfo)
		c.answered(optGo, repAck)
		c.request(0, cmdRead, 7, 0, 1)
		c.simple("a read", 0, 7, "\x00")
	}
	first := greeted(t, path)
	use(first)
	for range limits.NBDClients - 1 {
		use(greeted(t, path))
	}
	one := greeted(t, path)
	one.option(optGo, uint32(0), uint16(0))
	if got := one.answered(optGo, repErrPolicy); got != errNoRoom.Error() {
		t.Errorf("a client is refused by %q, want %q", got, errNoRoom)
	}
	if n, err := one.c.Read(make([]byte, 1)); err == nil {
		t.Errorf("a client that is refused reads %d bytes; want its end", n)
	}
	if got, want := <-said, fmt.Sprintf("a client is turned away: %d are connected", limits.NBDClients); got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
	first.request(0, cmdRead, 8, 0, 1)
	first.simple("the first client", 0, 8, "\x00")
}
