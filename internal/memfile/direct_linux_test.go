package memfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// fileOf returns the file of a device, without a mount.
func fileOf(t *testing.T, d Device) *file {
	t.Helper()
	return &file{cfg: Config{Device: d, Timeout: time.Minute, Full: func(err error) bool { return errors.Is(err, errFull) }, Log: func(string) {}}}
}

// Each call of fallocate is answered according to its mode and its place, before anything is
// changed.
func TestAHoleIsMadeWhereItChangesNoSize(t *testing.T) {
	const size = 3 << 20
	const hole, zeros, keep = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_KEEP_SIZE
	for name, c := range map[string]struct {
		mode      uint32
		offset, n uint64
		want      unix.Errno
		holes     string
	}{
		"a hole":                          {hole, 4096, 8192, 0, "[[4096 8192]]"},
		"a hole of all":                   {hole, 0, size, 0, "[[0 1048576] [1048576 1048576] [2097152 1048576]]"},
		"a hole beyond the end":           {hole, size - 1, 1 << 40, 0, "[[3145727 1]]"},
		"a hole whose end wraps":          {hole, 1, 1<<64 - 1, 0, "[[1 1048575] [1048576 1048576] [2097152 1048576]]"},
		"a hole at the end":               {hole, size, 1, 0, "[]"},
		"a hole behind the end":           {hole, size + 1, 1, 0, "[]"},
		"a hole that may grow":            {unix.FALLOC_FL_PUNCH_HOLE, 0, 1, unix.EOPNOTSUPP, "[]"},
		"zeros":                           {zeros, 0, size, 0, "[[0 1048576] [1048576 1048576] [2097152 1048576]]"},
		"zeros at the end, of nothing":    {zeros, size, 0, 0, "[]"},
		"zeros at the end":                {zeros, size, 1, unix.EFBIG, "[]"},
		"zeros over the end":              {zeros, size - 1, 2, unix.EFBIG, "[]"},
		"zeros behind the end":            {zeros, size + 1, 0, unix.EFBIG, "[]"},
		"zeros whose end wraps":           {zeros, 1, 1<<64 - 1, unix.EFBIG, "[]"},
		"zeros that grow nothing":         {zeros | keep, size - 1, 2, 0, "[[3145727 1]]"},
		"zeros that grow nothing, behind": {zeros | keep, size + 1, 2, 0, "[]"},
		"room":                            {0, 0, 1, unix.EOPNOTSUPP, "[]"},
		"room that grows nothing":         {keep, 0, 1, unix.EOPNOTSUPP, "[]"},
		"a collapse":                      {unix.FALLOC_FL_COLLAPSE_RANGE, 0, 4096, unix.EOPNOTSUPP, "[]"},
		"zeros and a hole":                {zeros | hole, 0, 1, unix.EOPNOTSUPP, "[]"},
	} {
		m := &memory{b: make([]byte, size)}
		errno := fileOf(t, m).Allocate(t.Context(), nil, c.offset, c.n, c.mode)
		if got := fmt.Sprint(m.holes); errno != c.want || got != c.holes {
			t.Errorf("%s: %v, %v; expected %v, %v", name, got, errno, c.holes, c.want)
		}
	}
}

// refusing is a device whose Discard fails after some calls.
type refusing struct {
	*memory
	after int
}

func (r *refusing) Discard(ctx context.Context, offset, n int64) error {
	if r.after--; r.after < 0 {
		return errFull
	}
	return r.memory.Discard(ctx, offset, n)
}

// A hole ends with the first part that fails, and returns the error of this part.
func TestAHoleEndsWithItsFirstFailure(t *testing.T) {
	for after := range 3 {
		r := &refusing{&memory{b: make([]byte, 3<<20)}, after}
		errno := fileOf(t, r).Allocate(t.Context(), nil, 0, 3<<20, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
		if errno != unix.ENOSPC || len(r.holes) != after || r.after != -1 {
			t.Errorf("a failure behind %d parts: %v behind %d", after, errno, len(r.holes))
		}
	}
}

// The attributes stay as they are. Setting an attribute to its present value is not a change.
func TestEachAttributeKeepsItsValue(t *testing.T) {
	const size = 5000
	f := fileOf(t, &memory{b: make([]byte, size)})
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	for name, c := range map[string]struct {
		in   fuse.SetAttrInCommon
		want unix.Errno
	}{
		"nothing":                   {fuse.SetAttrInCommon{Size: 1, Mode: 0o777, Owner: fuse.Owner{Uid: uid + 1, Gid: gid + 1}}, 0},
		"its size":                  {fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: size}, 0},
		"a size above":              {fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: size + 1}, unix.EPERM},
		"a size below":              {fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: size - 1}, unix.EPERM},
		"its mode":                  {fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: fuse.S_IFREG | 0o600}, 0},
		"another mode":              {fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: 0o640}, unix.EPERM},
		"a sticky mode":             {fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: 0o1600}, unix.EPERM},
		"its owner":                 {fuse.SetAttrInCommon{Valid: fuse.FATTR_UID, Owner: fuse.Owner{Uid: uid}}, 0},
		"another owner":             {fuse.SetAttrInCommon{Valid: fuse.FATTR_UID, Owner: fuse.Owner{Uid: uid + 1}}, unix.EPERM},
		"its group":                 {fuse.SetAttrInCommon{Valid: fuse.FATTR_GID, Owner: fuse.Owner{Gid: gid}}, 0},
		"another group":             {fuse.SetAttrInCommon{Valid: fuse.FATTR_GID, Owner: fuse.Owner{Gid: gid + 1}}, unix.EPERM},
		"its size and another mode": {fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE | fuse.FATTR_MODE, Size: size, Mode: 0o666}, unix.EPERM},
	} {
		var out fuse.AttrOut
		if errno := f.Setattr(t.Context(), nil, &fuse.SetAttrIn{SetAttrInCommon: c.in}, &out); errno != c.want || errno == 0 && out.Size != size {
			t.Errorf("%s: %v, and the size %d; expected %v", name, errno, out.Size, c.want)
		}
	}
	var out fuse.AttrOut
	f.since = time.Unix(7, 0)
	if errno := f.Getattr(t.Context(), nil, &out); errno != 0 || out.Mode != fuse.S_IFREG|0o600 || out.Nlink != 1 || out.Blocks != 10 || out.Blksize != 4096 ||
		out.Uid != uid || out.Gid != gid || out.Mtime != 7 || out.Ctime != 7 || out.Atime != 7 {
		t.Errorf("%+v, %v", out.Attr, errno)
	}
}

// The free room of a device is its unused part, within its size.
func TestTheFreeRoomIsWithinTheSize(t *testing.T) {
	const size = 10*4096 + 1
	for name, c := range map[string]struct {
		used func() int64
		free uint64
	}{
		"unknown":        {nil, 10},
		"nothing":        {func() int64 { return 0 }, 10},
		"a byte":         {func() int64 { return 1 }, 10},
		"a page":         {func() int64 { return 4096 }, 9},
		"all":            {func() int64 { return size }, 0},
		"more than all":  {func() int64 { return 2 * size }, 0},
		"less than none": {func() int64 { return -1 }, 10},
	} {
		f := fileOf(t, &memory{b: make([]byte, size)})
		f.cfg.Used = c.used
		var out fuse.StatfsOut
		if errno := f.Statfs(t.Context(), &out); errno != 0 || out.Blocks != 11 || out.Bfree != c.free || out.Bavail != c.free || out.Bsize != 4096 || out.Frsize != 4096 {
			t.Errorf("%s used: %+v, %v; expected 11 blocks, of which %d are free", name, out, errno, c.free)
		}
	}
}

// Each error of the device has its error number. The log gets the errors that a program cannot
// repair, with the operation and its place.
func TestEachFailureHasItsNumberAndItsLine(t *testing.T) {
	lost := errors.New("all is lost")
	for name, op := range map[string]func(f *file) unix.Errno{
		"read of 4 bytes at 8":  func(f *file) unix.Errno { _, e := f.Read(context.Background(), nil, make([]byte, 4), 8); return e },
		"write of 4 bytes at 8": func(f *file) unix.Errno { _, e := f.Write(context.Background(), nil, make([]byte, 4), 8); return e },
		"fsync of 0 bytes at 0": func(f *file) unix.Errno { return f.Fsync(context.Background(), nil, 0) },
	} {
		for _, c := range []struct {
			err  error
			want unix.Errno
			line string
		}{{nil, 0, ""}, {errFull, unix.ENOSPC, ""}, {lost, unix.EIO, name + " fails: all is lost"}} {
			m := &memory{b: make([]byte, 4096), fail: c.err}
			f := fileOf(t, m)
			line := ""
			f.cfg.Log = func(text string) { line += text }
			if errno := op(f); errno != c.want || line != c.line {
				t.Errorf("%s of a device that says %v: %v, %q; expected %v, %q", name, c.err, errno, line, c.want, c.line)
			}
		}
	}
	f := fileOf(t, &memory{b: []byte("bytes")})
	for offset, want := range map[int64]string{0: "bytes", 3: "es", 5: ""} {
		r, errno := f.Read(t.Context(), nil, make([]byte, 8), offset)
		if b, _ := r.Bytes(nil); string(b) != want || errno != 0 {
			t.Errorf("a read at %d: %q, %v; expected %q, to the end", offset, b, errno, want)
		}
	}
}

// waiting is a device whose writes wait until their context ends.
type waiting struct{ *memory }

func (w waiting) WriteAtContext(ctx context.Context, _ []byte, _ int64) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// An unmount ends the operations in flight at once and without a log line. The operations that it
// begins itself have little time, and it does not end them.
func TestAnUnmountEndsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fileOf(t, waiting{&memory{b: make([]byte, 4096)}})
		f.cfg.Log = func(text string) { t.Errorf("it logs %q", text) }
		ended := make(chan unix.Errno, 3)
		for range cap(ended) {
			go func() { _, errno := f.Write(t.Context(), nil, []byte("x"), 0); ended <- errno }()
		}
		synctest.Wait()
		begun := time.Now()
		f.outage.end()
		f.outage.end()
		for range cap(ended) {
			if errno := <-ended; errno != unix.EIO || time.Since(begun) != 0 {
				t.Errorf("a write in flight: %v after %v", errno, time.Since(begun))
			}
		}
		line := ""
		f.cfg.Log = func(text string) { line = text }
		little := f.cfg.Timeout / silentPart
		if _, errno := f.Write(t.Context(), nil, []byte("x"), 0); errno != unix.EIO || time.Since(begun) != little || !strings.Contains(line, fmt.Sprint("not done within ", little)) {
			t.Errorf("a write that the unmount begins: %v after %v, %q; expected %v", errno, time.Since(begun), line, little)
		}
		f.cfg.Device = &memory{b: make([]byte, 4096)}
		if n, errno := f.Write(t.Context(), nil, []byte("x"), 0); n != 1 || errno != 0 {
			t.Errorf("a write that the device does at once: %d, %v", n, errno)
		}
	})
	var o outage // the outage of a mount that no operation has used
	o.end()
	o.timeout = 100 * time.Microsecond
	if got := o.limit(time.Now()); got != time.Millisecond {
		t.Errorf("the least time is %v; expected %v", got, time.Millisecond)
	}
	o = outage{timeout: 2 * time.Millisecond, lastLate: time.Now()}
	if got := o.limit(o.lastLate); got != time.Millisecond {
		t.Errorf("the least time while some operations succeed is %v; expected %v", got, time.Millisecond)
	}
}

// For the length of a timeout, a late operation shortens the time of the next operations.
func TestAnOperationThatIsLateShortensTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fileOf(t, waiting{&memory{b: make([]byte, 4096)}})
		write := func() (took time.Duration) {
			begun := time.Now()
			if _, errno := f.Write(t.Context(), nil, []byte("x"), 0); errno != unix.EIO {
				t.Errorf("a write to a dead server: %v", errno)
			}
			return time.Since(begun)
		}
		whole := f.cfg.Timeout
		if first, second := write(), write(); first != whole || second != whole/silentPart {
			t.Errorf("the first takes %v, the second %v; expected %v, %v", first, second, whole, whole/silentPart)
		}
		if errno := f.Fsync(t.Context(), nil, 0); errno != 0 { // another server answers
			t.Fatal(errno)
		}
		if third := write(); third != whole/mixedPart {
			t.Errorf("beside a server that answers a write takes %v; expected %v", third, whole/mixedPart)
		}
		time.Sleep(whole)
		if later := write(); later != whole {
			t.Errorf("a timeout later a write takes %v; expected %v", later, whole)
		}
	})
}

// The error of a refused mount names what is missing: the mount helper, or the reason of the
// refusal.
func TestAMountThatIsRefusedTellsWhatItLacks(t *testing.T) {
	for _, err := range []error{exec.ErrNotFound, os.ErrNotExist, fmt.Errorf("fusermount: %w", exec.ErrNotFound)} {
		if got := refused(err); !errors.Is(got, err) || !errors.Is(got, unix.EPERM) {
			t.Errorf("without a helper (%v): %v", err, got)
		}
	}
	if got := refused(unix.EINVAL); !errors.Is(got, unix.EINVAL) || errors.Is(got, unix.EPERM) || errors.As(got, new(*refusal.Refusal)) && strings.Contains(got.Error(), "not found") {
		t.Errorf("another failure: %v", got)
	}
}

// A mount uses the defaults for fields that its configuration leaves out.
func TestAMountHasItsDefaults(t *testing.T) {
	mount, f := mountOf(t, Config{Device: &memory{b: make([]byte, 4096)}})
	cfg := mount.file.cfg
	if cfg.Timeout != 30*time.Second || cfg.Used != nil || time.Since(mount.file.since) > time.Hour {
		t.Errorf("%+v", cfg)
	}
	cfg.Log("nothing")
	f.Close()
	if err := mount.Close(); err != nil {
		t.Fatal(err)
	}
	mount.Wait()
	if os.Getuid() != 0 {
		return
	}
	dir := t.TempDir()
	// without Full and Log
	bare, err := New(dir, Config{Device: &memory{b: make([]byte, 4096), fail: io.ErrNoProgress}})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, Name)); !errors.Is(err, unix.EIO) {
		t.Errorf("%q, %v", b, err)
	}
	if err := bare.Close(); err != nil {
		t.Error(err)
	}
	bare.Wait()
}
