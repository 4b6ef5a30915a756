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

// at returns a copy of the device's bytes.
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

// mounted mounts a device until the test ends, and opens its file.
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

// mountOf mounts a device and opens its file. It skips the test if mounting is not permitted.
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
	// Blocks have 512 bytes. If there are none, tar --sparse takes the file for a hole.
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks != 2049 {
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

// A removed file would be missing, with all its bytes, until it is mounted anew.
func TestTheFileCannotBeRemoved(t *testing.T) {
	f := mounted(t, Config{Device: &memory{b: make([]byte, 4096)}})
	if err := os.Remove(f.Name()); !errors.Is(err, unix.EPERM) {
		t.Errorf("removing the file: %v; expected %v", err, unix.EPERM)
	}
	if _, err := os.Stat(f.Name()); err != nil {
		t.Error(err)
	}
}

// The file keeps its size. Zeros beyond its end are refused before anything is changed, unless
// the call says that the file must not grow.
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
	// Here the program that maps the file also serves it, which is wrong in general: a garbage
	// collection would wait for a goroutine that waits for a page, and the goroutine that should
	// bring the page would wait for the collection.
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

// silent is a device whose writes wait until their context ends. It records the time limit of
// each write.
type silent struct {
	*memory
	mu     sync.Mutex
	limits []time.Duration
	begun  chan struct{}
}

func (s *silent) WriteAtContext(ctx context.Context, b []byte, _ int64) (int, error) {
	at, _ := ctx.Deadline()
	s.mu.Lock()
	s.limits = append(s.limits, time.Until(at))
	s.mu.Unlock()
	select {
	case s.begun <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// An fsync writes the kernel's cache in batches, one after another.
func TestOfManyWritesToADeadServerOnlyTheFirstTakesTheWholeTimeout(t *testing.T) {
	const timeout = 640 * time.Millisecond
	dev := &silent{memory: &memory{b: make([]byte, 16<<20)}}
	f := mounted(t, Config{Device: dev, Timeout: timeout})
	for at := int64(0); at < dev.Size(); at += 1 << 20 {
		if _, err := f.WriteAt(make([]byte, 1<<20), at); !errors.Is(err, unix.EIO) {
			t.Fatalf("a write at %d to a dead server: %v; expected %v", at, err, unix.EIO)
		}
	}
	if err := f.Sync(); err != nil {
		t.Errorf("fsync when nothing is left to write: %v", err)
	}
	dev.mu.Lock()
	defer dev.mu.Unlock()
	for i, d := range dev.limits[1:] {
		if d > timeout/silentPart {
			t.Errorf("write %d may take %v; expected at most %v", i+1, d, timeout/silentPart)
		}
	}
}

func TestAnInterruptEndsWhatWaitsForADeadServer(t *testing.T) {
	dev := &silent{memory: &memory{b: make([]byte, 1<<20)}, begun: make(chan struct{}, 1)}
	mount, f := mountOf(t, Config{Device: dev, Timeout: time.Hour, Log: func(text string) { t.Errorf("it logs %q", text) }})
	defer mount.Wait()
	defer f.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := f.WriteAt([]byte("x"), 0)
		ended <- err
	}()
	<-dev.begun
	if err := mount.Close(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("unmounting what is in use: %v; expected %v", err, unix.EBUSY)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, unix.EIO) {
			t.Errorf("the write ends with %v; expected %v", err, unix.EIO)
		}
	case <-time.After(time.Minute):
		t.Error("the write goes on")
	}
}

// Another server may be alive but slow, so its operations must not fail at once.
func TestOperationsHaveMoreTimeWhileSomeSucceed(t *testing.T) {
	var o outage
	o.init(time.Hour)
	for i, step := range []struct {
		ok, late bool
		want     time.Duration
	}{
		{true, false, time.Hour},
		{false, true, time.Hour / silentPart},
		{false, true, time.Hour / silentPart},
		{true, false, time.Hour / mixedPart},
		{false, true, time.Hour / mixedPart},
		{false, false, time.Hour / mixedPart},
	} {
		if o.note(step.ok, step.late); o.limit(time.Now()) != step.want {
			t.Errorf("step %d: %v; expected %v", i, o.limit(time.Now()), step.want)
		}
	}
	if got := o.limit(time.Now().Add(2 * time.Hour)); got != time.Hour {
		t.Errorf("when nothing has timed out for long: %v; expected %v", got, time.Hour)
	}
}

func TestADirectoryIsSyncedAndTellsItsSizeAndUse(t *testing.T) {
	m := &memory{b: make([]byte, 1<<20)}
	f := mounted(t, Config{Device: m, Used: func() int64 { return 256 << 10 }})
	dir, err := os.Open(filepath.Dir(f.Name()))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		t.Errorf("fsync of the directory: %v", err)
	}
	for what, fd := range map[string]*os.File{"the directory": dir, "the file": f} {
		var s unix.Statfs_t
		if err := unix.Fstatfs(int(fd.Fd()), &s); err != nil || s.Bsize != 4096 || s.Blocks != 256 || s.Bfree != 192 || s.Bavail != 192 || s.Files != 2 || s.Namelen < int64(len(Name)) {
			t.Errorf("statfs of %s: %+v, %v; expected 256 blocks of 4096 bytes, of which 192 are free", what, s, err)
		}
	}
	m.mu.Lock()
	m.fail = errors.New("all is lost")
	m.mu.Unlock()
	if err := dir.Sync(); !errors.Is(err, unix.EIO) {
		t.Errorf("fsync of the directory of a device that fails: %v; expected %v", err, unix.EIO)
	}
}

// Programs use these operations on a file. They take a different answer for a broken disk.
func TestOperationsThatProgramsExpectHaveTheirAnswer(t *testing.T) {
	f := mounted(t, Config{Device: &memory{b: make([]byte, 1<<20)}})
	fd, path, other := int(f.Fd()), f.Name(), filepath.Join(filepath.Dir(f.Name()), "other")
	at := func(whence int) error { _, err := unix.Seek(fd, 4096, whence); return err }
	for what, c := range map[string]struct{ got, want error }{
		"fdatasync":        {unix.Fdatasync(fd), nil},
		"sync_file_range":  {unix.SyncFileRange(fd, 0, 4096, unix.SYNC_FILE_RANGE_WRITE), nil},
		"syncfs":           {unix.Syncfs(fd), nil},
		"access":           {unix.Access(path, unix.R_OK|unix.W_OK), nil},
		"lseek SEEK_DATA":  {at(unix.SEEK_DATA), nil},
		"lseek SEEK_HOLE":  {at(unix.SEEK_HOLE), nil},
		"flock":            {unix.Flock(fd, unix.LOCK_EX), nil},
		"fcntl F_SETLK":    {unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}), nil},
		"utimes":           {os.Chtimes(path, time.Now(), time.Now()), nil},
		"fadvise":          {unix.Fadvise(fd, 0, 4096, unix.FADV_DONTNEED), nil},
		"copy_file_range":  {copyRange(fd), nil},
		"truncate, same":   {unix.Ftruncate(fd, 1<<20), nil},
		"truncate, longer": {unix.Ftruncate(fd, 2<<20), unix.EPERM},
		"unlink":           {unix.Unlink(path), unix.EPERM},
		"rename":           {unix.Rename(path, other), unix.EPERM},
		"link":             {unix.Link(path, other), unix.EPERM},
		"symlink":          {unix.Symlink(path, other), unix.EPERM},
		"mkdir":            {unix.Mkdir(other, 0o700), unix.EPERM},
		"mknod":            {unix.Mknod(other, unix.S_IFIFO|0o600, 0), unix.EPERM},
		"create":           {func() error { return os.WriteFile(other, nil, 0o600) }(), unix.EPERM},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v; expected %v", what, c.got, c.want)
		}
	}
}

// copyRange copies a page of a file to a later place in the file, within the kernel.
func copyRange(fd int) error {
	from, to := int64(0), int64(8192)
	_, err := unix.CopyFileRange(fd, &from, fd, &to, 4096, 0)
	return err
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
