package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/testenv"
	"github.com/weftnet/weft/netmem"
)

// killedServers is a kernel filesystem on a file of `weft mem mount`. Its page servers have
// embedded NICs.
//
//	writer ── ext4 ── loop ── FUSE ── weft mem mount ── 3 × weft mem serve, each killed in turn
type killedServers struct {
	t       *testing.T
	rng     *rand.Rand
	addrs   []string
	servers []*child
	mount   *child
	loop    string // the device
	at      string // where the filesystem is mounted

	kills int
	// from a start of a server until it lends: total and longest
	took, longest time.Duration
}

// child is weft as a separate process.
type child struct {
	cmd  *exec.Cmd
	said lockedBuffer
}

func startChild(t *testing.T, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command("/proc/self/exe", args...)}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = append(os.Environ(), asWeft+"=1"), &c.said, &c.said
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// end ends the process by a signal.
func (c *child) end(s os.Signal) {
	_ = c.cmd.Process.Signal(s) // fails if it has ended
	_ = c.cmd.Wait()
}

// says waits until the process has printed a text.
func (c *child) says(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(c.said.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not say %q: %s", strings.Join(c.cmd.Args[1:], " "), text, c.said.String())
		}
	}
}

// tool runs a program of the system to its end.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// needsFilesystems skips a test if no filesystem can be made on a file of FUSE.
func needsFilesystems(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("to mount filesystems needs root")
	}
	for _, file := range []string{"/dev/fuse", "/dev/loop-control"} {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Skipf("no filesystem of the kernel on network memory here: %v", err)
		}
		f.Close()
	}
	for _, name := range []string{"mkfs.ext4", "fsck.ext4", "losetup"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}

// serve starts a server, and waits until it lends.
func (k *killedServers) serve(i int) *child {
	args := []string{"mem", "serve", "--name", "mem/" + strconv.Itoa(i), "--size", "64MiB", "--listen", k.addrs[i]}
	for _, other := range k.addrs {
		if other != k.addrs[i] {
			args = append(args, "--node", other)
		}
	}
	return startChild(k.t, args...)
}

func newKilledServers(t *testing.T, seed uint64) *killedServers {
	k := &killedServers{t: t, rng: rand.New(rand.NewPCG(seed, 8)), addrs: make([]string, 3)}
	for i := range k.addrs {
		k.addrs[i] = testenv.Loopback(t)
	}
	dir, at := t.TempDir(), t.TempDir()
	t.Cleanup(k.end)
	args := []string{"mem", "mount", "--size", "48MiB", "--copies", "2", "--listen", "127.0.0.1:0", "--report", "50ms"}
	for i := range k.addrs {
		k.servers = append(k.servers, k.serve(i))
		args = append(args, "--server", "mem/"+strconv.Itoa(i), "--node", k.addrs[i])
	}
	for _, s := range k.servers {
		s.says(t, " lends ")
	}
	k.mount = startChild(t, append(args, dir)...)
	k.mount.says(t, " shows 48MiB ")
	k.loop = tool(t, "losetup", "--find", "--show", filepath.Join(dir, "memory"))
	tool(t, "mkfs.ext4", "-q", "-F", k.loop)
	if err := unix.Mount(k.loop, at, "ext4", 0, "errors=remount-ro"); err != nil {
		t.Fatal(err)
	}
	k.at = at
	return k
}

// unmount unmounts the filesystem. All its data is on the servers then.
func (k *killedServers) unmount() error {
	if k.at == "" {
		return nil
	}
	err := unix.Unmount(k.at, 0)
	if err != nil {
		err = errors.Join(err, unix.Unmount(k.at, unix.MNT_DETACH))
	}
	k.at = ""
	return err
}

// end ends all, from the top to the bottom.
func (k *killedServers) end() {
	if err := k.unmount(); err != nil {
		k.t.Errorf("unmount: %v", err)
	}
	if k.loop != "" {
		_ = exec.Command("losetup", "--detach", k.loop).Run()
	}
	if k.mount != nil {
		k.mount.end(os.Interrupt)
	}
	for _, s := range k.servers {
		s.end(os.Kill)
	}
}

// stats returns the last report of the mount.
func (k *killedServers) stats() (st netmem.ClientStats) {
	said := k.mount.said.String()
	for {
		end := strings.LastIndexByte(said, '\n')
		if end < 0 {
			return st
		}
		said = said[:end]
		if json.Unmarshal([]byte(lastLine(said)), &st) == nil {
			return st
		}
	}
}

// killNext kills a server with its NIC, starts it again after 1 to 6 s with the same command,
// and waits until each page has its copies again.
func (k *killedServers) killNext() {
	i := k.kills % len(k.servers)
	restarts := k.stats().Restarts
	k.servers[i].end(os.Kill)
	k.kills++
	time.Sleep(time.Second + time.Duration(k.rng.Int64N(int64(5*time.Second))))
	began := time.Now()
	k.servers[i] = k.serve(i)
	k.servers[i].says(k.t, " lends ")
	took := time.Since(began)
	k.took, k.longest = k.took+took, max(k.longest, took)
	await(k.t, "the copies of each page", func() bool {
		time.Sleep(20 * time.Millisecond) // between two reports
		st := k.stats()
		return st.ServersUp == len(k.servers) && st.Lacking == 0 && st.Restarts > restarts
	})
}

// diskWriter writes files of a filesystem again and again. Each write reaches the servers before
// the next begins.
type diskWriter struct {
	dir     string
	rng     *rand.Rand
	version [40]uint64
	writes  int
	longest time.Duration
}

// text returns the contents of a file in its current version.
func (w *diskWriter) text(file int) []byte {
	r, b := rand.New(rand.NewPCG(uint64(file), w.version[file])), make([]byte, 128<<10)
	for at := 0; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], r.Uint64())
	}
	return b
}

func (w *diskWriter) path(file int) string { return filepath.Join(w.dir, strconv.Itoa(file)) }

// write writes one file, and waits until it is stored.
func (w *diskWriter) write() error {
	file := w.rng.IntN(len(w.version))
	w.version[file]++
	began := time.Now()
	f, err := os.Create(w.path(file))
	if err != nil {
		return err
	}
	_, err = f.Write(w.text(file))
	err = errors.Join(err, f.Sync(), f.Close())
	w.writes++
	w.longest = max(w.longest, time.Since(began))
	return err
}

// verify reads every file.
func (w *diskWriter) verify() error {
	for file, version := range w.version {
		if version == 0 {
			continue
		}
		if b, err := os.ReadFile(w.path(file)); err != nil || !bytes.Equal(b, w.text(file)) {
			return fmt.Errorf("file %d has not the bytes that were written (%w)", file, err)
		}
	}
	return nil
}

// Three page servers are killed with their NICs, one after another, under a writer of a
// filesystem. No write fails, and in the end the filesystem is whole. 20 s; 5 minutes with -args
// -long.
func TestServersKilledInTurnFailNoWriteOfAFilesystem(t *testing.T) {
	needsFilesystems(t)
	lasting, seed := 12*time.Second, uint64(time.Now().UnixNano())
	if *long {
		lasting = 5 * time.Minute
	}
	k := newKilledServers(t, seed)
	w := &diskWriter{dir: k.at, rng: rand.New(rand.NewPCG(seed, 9))}
	over, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for running := true; running && err == nil; {
			select {
			case <-over:
				running = false
			default:
				err = w.write()
			}
		}
		failed <- err
	}()
	ended := false
	stop := func() (err error) {
		if !ended {
			ended = true
			close(over)
			err = <-failed
		}
		return err
	}
	defer stop()
	for began := time.Now(); time.Since(began) < lasting && len(failed) == 0; {
		k.killNext()
	}
	if err := stop(); err != nil {
		t.Fatalf("seed %d: write %d failed after %d kills: %v; mount: %s", seed, w.writes, k.kills, err, k.mount.said.String())
	}
	if err := k.unmount(); err != nil {
		t.Fatal(err)
	}
	// fsck fails if the filesystem is not whole
	checked := tool(t, "fsck.ext4", "-f", "-n", k.loop)
	at := w.dir
	// A program of another test that started with a copy of all mounts keeps the filesystem
	// mounted until it ends.
	err := unix.EBUSY
	for deadline := time.Now().Add(patience); errors.Is(err, unix.EBUSY) && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		err, _ = unix.Mount(k.loop, at, "ext4", unix.MS_RDONLY, "").(unix.Errno)
	}
	if err != 0 {
		t.Fatal(err)
	}
	k.at = at
	if err := w.verify(); err != nil {
		t.Errorf("seed %d, after %d kills: %v", seed, k.kills, err)
	}
	t.Logf("%d kills, %d writes of 128 KiB, the longest %v; a server lends %v after its start, %v at most; fsck: %s", k.kills, w.writes,
		w.longest.Round(time.Millisecond), (k.took / time.Duration(k.kills)).Round(time.Millisecond), k.longest.Round(time.Millisecond), lastLine(checked))
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }
