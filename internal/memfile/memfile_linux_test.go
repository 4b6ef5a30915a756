package memfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// memory is a device in memory.
type memory struct {
	mu    sync.Mutex
	b     []byte
	holes [][2]int64 // offset and length
	fail  error
	stuck bool // reads wait for their context
}

// at is a copy of what the device has.
func (m *memory) at(offset, n int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.b[offset : offset+n])
}

func (m *memory) Size() int64 { return int64(len(m.b)) }

func (m *memory) ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if m.fail != nil {
		return 0, m.fail
	}
	n := copy(b, m.b[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) WriteAtContext(_ context.Context, b []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return 0, m.fail
	}
	return copy(m.b[offset:], b), nil
}

func (m *memory) Flush(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fail
}

func (m *memory) Discard(_ context.Context, offset, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holes = append(m.holes, [2]int64{offset, n})
	clear(m.b[offset : offset+n])
	return nil
}

var errFull = errors.New("no room")

// mounted mounts a device for the time of the test, and opens its file.
func mounted(t *testing.T, cfg Config) *os.File {
	t.Helper()
	mount, f := mountOf(t, cfg)
	t.Cleanup(func() {
		f.Close()
		if err := mount.Close(); err != nil {
			t.Error(err)
		}
		mount.Wait()
	})
	return f
}

// mountOf mounts a device, or skips the test where that is not permitted, and opens its file.
func mountOf(t *testing.T, cfg Config) (*Mount, *os.File) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("to mount needs root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	cfg.Source, cfg.Full = "test", func(err error) bool { return errors.Is(err, errFull) }
	mount, err := New(dir, cfg)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	return mount, f
}

func TestAFileIsReadAndWritten(t *testing.T) {
	m := &memory{b: make([]byte, 1<<20+100)}
	f := mounted(t, Config{Device: m})
	if info, err := f.Stat(); err != nil || info.Size() != 1<<20+100 {
		t.Fatalf("%v, %v", info, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks != 2049 { // of 512 bytes; with none, tar --sparse takes the file for a hole
		t.Errorf("the file has %d blocks, %v; expected 2049", st.Blocks, err)
	}
	data := bytes.Repeat([]byte("weft"), 50_000)
	if n, err := f.WriteAt(data, 3333); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	if !bytes.Equal(m.at(3333, len(data)), data) {
		t.Error("the device does not have what was written")
	}
	got := make([]byte, len(data))
	if _, err := f.ReadAt(got, 3333); err != nil || !bytes.Equal(got, data) {
		t.Error("what is read differs from what was written", err)
	}
	if n, err := f.ReadAt(got, 1<<20); n != 100 || err != io.EOF {
		t.Errorf("%d bytes at the end, %v", n, err)
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 8192); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(m.at(4096, 8192), make([]byte, 8192)) || m.at(4095, 1)[0] == 0 || m.at(12288, 1)[0] == 0 {
		t.Error("a hole is not where it was made")
	}
	for what, err := range map[string]error{
		"growing": f.Truncate(2 << 20), "allocating": unix.Fallocate(int(f.Fd()), 0, 0, 4096), "shrinking": f.Truncate(5),
	} {
		if err == nil {
			t.Errorf("%s is possible", what)
		}
	}
	if err := f.Sync(); err != nil {
		t.Error(err)
	}
}

func TestTheFileKeepsItsOwnerAndMode(t *testing.T) {
	f := mounted(t, Config{Device: &memory{b: make([]byte, 4096)}})
	for what, err := range map[string]error{"another mode": f.Chmod(0o666), "another owner": f.Chown(os.Getuid()+1, -1), "another group": f.Chown(-1, os.Getgid()+1)} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v; expected %v", what, err, unix.EPERM)
		}
	}
	if err := errors.Join(f.Chmod(0o600), f.Chown(os.Getuid(), os.Getgid()), os.Chtimes(f.Name(), time.Now(), time.Now()), f.Truncate(4096)); err != nil {
		t.Errorf("what it has: %v", err)
	}
}

// A file that was removed would be missing until it is mounted anew, with all that it has.
func TestTheFileCannotBeRemoved(t *testing.T) {
	f := mounted(t, Config{Device: &memory{b: make([]byte, 4096)}})
	if err := os.Remove(f.Name()); !errors.Is(err, unix.EPERM) {
		t.Errorf("removing the file: %v; expected %v", err, unix.EPERM)
	}
	if _, err := os.Stat(f.Name()); err != nil {
		t.Error(err)
	}
}

// The file keeps its size: what would be zeros beyond its end is refused, before anything is changed, unless it shall not grow by that.
func TestZerosBeyondTheEndMakeTheFileNoLonger(t *testing.T) {
	const size = 1 << 20
	m := &memory{b: bytes.Repeat([]byte("x"), size)}
	f := mounted(t, Config{Device: m})
	for _, at := range []int64{0, size - 4096, size, 2 * size} {
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_ZERO_RANGE, at, size+4096); !errors.Is(err, unix.EFBIG) {
			t.Errorf("zeros from %d on, beyond the end: %v; expected %v", at, err, unix.EFBIG)
		}
		if info, err := f.Stat(); err != nil || info.Size() != size {
			t.Errorf("the file has %d bytes, %v; expected %d", info.Size(), err, size)
		}
	}
	if !bytes.Equal(m.at(0, size), bytes.Repeat([]byte("x"), size)) {
		t.Error("what was refused has changed the device")
	}
	for _, mode := range []uint32{unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE} {
		if err := unix.Fallocate(int(f.Fd()), mode, size-4096, 4096+int64(mode&unix.FALLOC_FL_KEEP_SIZE)); err != nil {
			t.Error(err)
		}
	}
	if info, err := f.Stat(); err != nil || info.Size() != size || m.at(size-1, 1)[0] != 0 {
		t.Errorf("the file has %d bytes, %v, the last of them %d; expected %d and 0", info.Size(), err, m.at(size-1, 1)[0], size)
	}
}

func TestAMappingOfTheFileIsMemory(t *testing.T) {
	// The program that maps the file is the one that serves it, as it should not be: a collection would wait for a goroutine that waits for
	// a page, and the goroutine that is to bring the page would wait for the collection.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	m := &memory{b: make([]byte, 1<<20)}
	f := mounted(t, Config{Device: m})
	mem, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(mem); i += 1000 {
		mem[i] = byte(i / 1000)
	}
	if err := unix.Msync(mem, unix.MS_SYNC); err != nil {
		t.Error(err)
	}
	for i, b := range m.at(0, 1<<20) {
		if i%1000 == 0 && b != byte(i/1000) {
			t.Fatalf("byte %d is %d on the device, want %d", i, b, byte(i/1000))
		}
	}
	if err := unix.Munmap(mem); err != nil {
		t.Error(err)
	}
}

func TestErrorsOfTheDeviceAreTheFiles(t *testing.T) {
	m := &memory{b: make([]byte, 1<<20)}
	f := mounted(t, Config{Device: m})
	m.mu.Lock()
	m.fail = errFull
	m.mu.Unlock()
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a device without room: %v", err)
	}
	m.mu.Lock()
	m.fail = errors.New("all is lost")
	m.mu.Unlock()
	if _, err := f.ReadAt(make([]byte, 1), 1<<19); !errors.Is(err, unix.EIO) {
		t.Errorf("a device that fails: %v", err)
	}
}

func TestALargeHoleIsMadeInParts(t *testing.T) {
	m := &memory{b: make([]byte, 3<<20)}
	f := mounted(t, Config{Device: m})
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 2<<20); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := [][2]int64{{4096, 1<<20 - 4096}, {1 << 20, 1 << 20}, {2 << 20, 4096}}; !slices.Equal(m.holes, want) {
		t.Errorf("%v; expected %v, each with its own time", m.holes, want)
	}
}

func TestAnOperationThatTakesTooLongIsLoggedWithItsTime(t *testing.T) {
	said := make(chan string, 100)
	f := mounted(t, Config{Device: &memory{b: make([]byte, 4096), stuck: true}, Timeout: 10 * time.Millisecond, Log: func(text string) { said <- text }})
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, unix.EIO) {
		t.Errorf("a device that does nothing: %v", err)
	}
	if got, want := <-said, "read of 4096 bytes at 0 fails: not done within 10ms: context deadline exceeded"; got != want {
		t.Errorf("%q is logged; expected %q", got, want)
	}
}

func TestNoMountIsLeftThoughTheFileIsInUse(t *testing.T) {
	mount, f := mountOf(t, Config{Device: &memory{b: make([]byte, 1<<20)}})
	defer mount.Wait()
	defer f.Close()
	if err := mount.Close(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("unmounting what is in use: %v; expected %v", err, unix.EBUSY)
	}
	if left, err := os.ReadDir(filepath.Dir(f.Name())); err != nil || len(left) > 0 {
		t.Errorf("the directory has %v, %v; expected what was there before the mount: nothing", left, err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Errorf("the file that is open: %v", err)
	}
}

func TestADirectoryThatAKilledProcessHasMountedIsRefusedWithTheCure(t *testing.T) {
	dir := t.TempDir()
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	err = unix.Mount("test", dir, "fuse.weft", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse))
	unix.Close(fuse)
	if errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, 0)
	if _, err := New(dir, Config{Device: &memory{}}); !errors.Is(err, unix.ENOTCONN) || !strings.Contains(err.Error(), "(umount "+dir+")") {
		t.Error(err)
	}
}

func TestOnlyAnEmptyDirectoryIsMountedOn(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for d, want := range map[string]string{dir: `has "mine" in it; expected an empty directory`, dir + "/no": "no such file", dir + "/mine": "not a directory"} {
		if _, err := New(d, Config{Device: &memory{}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", d, err, want)
		}
	}
}
