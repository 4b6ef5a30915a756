//go:build unix

package weft_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft"
)

// fileOf returns a file with the given bytes, and closes it at the end of the test.
func fileOf(t *testing.T, data []byte) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "data"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAPartOfAFileIsARegion(t *testing.T) {
	links(t, func(t *testing.T, n *network) {
		ctx, a, b := pair(t, n)
		data := pattern(3, 5*os.Getpagesize())
		f := fileOf(t, data)
		const offset = 1234
		size := 3*os.Getpagesize() + 7
		r, err := b.RegisterFile(f, offset, size, weft.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		back := make([]byte, size)
		if err := a.Get(ctx, r.Handle(), 0, back); err != nil || !bytes.Equal(back, data[offset:][:size]) || !bytes.Equal(r.Bytes(), back) {
			t.Fatalf("get: %v; the bytes are the file's: %v", err, bytes.Equal(back, data[offset:][:size]))
		}
		s, err := r.Share(100, 10, weft.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Put(ctx, s.Handle(), 0, []byte("over there")); err != nil {
			t.Fatal(err)
		}
		copy(data[offset+100:], "over there")
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Put(ctx, r.Handle(), 0, []byte("no")); !errors.Is(err, weft.ErrRegion) {
			t.Errorf("put into a region that is closed: %v", err)
		}
		if there, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(there, data) {
			t.Errorf("the file has what was put: %v, %v", bytes.Equal(there, data), err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("a second close: %v", err)
		}
	})
}

// Other processes can read a file that is open for reading. The NIC refuses their PUTs, and also
// refuses operations of the file's own process that would write to the file.
func TestAFileThatIsRegisteredReadOnlyIsServedAndNotWritten(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	data := pattern(2, 2*os.Getpagesize())
	f, err := os.Open(fileOf(t, data).Name())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.RegisterFile(f, 0, len(data), weft.ReadWrite); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "not open for reading and writing") {
		t.Errorf("a file that is open for reading, to be written: %v", err)
	}
	r, err := b.RegisterFile(f, 0, len(data), weft.ReadOnly)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(data))
	if err := a.Get(ctx, r.Handle(), 0, back); err != nil || !bytes.Equal(back, data) {
		t.Errorf("get: %v", err)
	}
	if err := a.Put(ctx, r.Handle(), 0, []byte("no")); !errors.Is(err, weft.ErrRegion) {
		t.Errorf("put into memory that is read-only: %v; expected ErrRegion", err)
	}
	for what, err := range writes(ctx, a, b, r.Bytes()) {
		if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "ReadOnly") {
			t.Errorf("%s into memory that is registered as ReadOnly: %v", what, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// If a file becomes shorter, the remaining part stays usable. Operations on the missing part fail
// before anything is sent.
func TestAFileThatBecomesShorterIsFoundByEveryOperation(t *testing.T) {
	ctx, a, b := pair(t, on(weft.Config{}))
	page := os.Getpagesize()
	f := fileOf(t, make([]byte, 8*page))
	r, err := b.RegisterFile(f, 0, 8*page, weft.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(4 * page)); err != nil {
		t.Fatal(err)
	}
	if err := a.Put(ctx, r.Handle(), 0, make([]byte, 4*page)); err != nil {
		t.Errorf("put into what is left: %v", err)
	}
	sent := sends(b.NIC())
	for _, part := range [][]byte{r.Bytes()[4*page:][:100], r.Bytes()} {
		for _, l := range []map[string]error{writes(ctx, a, b, part), reads(ctx, a, b, part[len(part)-100:])} {
			for what, err := range l {
				if !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), "is not mapped") {
					t.Errorf("%s of what is gone: %v", what, err)
				}
			}
		}
	}
	if n := sends(b.NIC()) - sent; n != 0 {
		t.Errorf("%d operations left nevertheless", n)
	}
	if err := a.Put(ctx, r.Handle(), 0, make([]byte, 8*page)); !errors.Is(err, weft.ErrRegion) {
		t.Errorf("a put into what is gone: %v; expected ErrRegion", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeARegionOfAFileIsToldInNumbers(t *testing.T) {
	_, _, b := pair(t, on(weft.Config{}))
	f := fileOf(t, make([]byte, 1000))
	closed := fileOf(t, make([]byte, 1000))
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	for _, c := range []struct {
		what   string
		f      *os.File
		offset int64
		n      int
		rights weft.Rights
		says   string
	}{
		{"no file", nil, 0, 1, weft.ReadOnly, "not open"},
		{"a closed file", closed, 0, 1, weft.ReadOnly, "not open"},
		{"a pipe", in, 0, 1, weft.ReadOnly, "expected a regular file"},
		{"a file open for writing only", out, 0, 1, weft.ReadWrite, "expected a regular file"},
		{"nothing", f, 0, 0, weft.ReadOnly, "0 bytes"},
		{"less than nothing", f, 0, -1, weft.ReadOnly, "-1 bytes"},
		{"more than a region", f, 0, 1 << 50, weft.ReadOnly, "expected 1 to"},
		{"an offset below 0", f, -1, 10, weft.ReadOnly, "from -1 on"},
		{"more than there is", f, 0, 1001, weft.ReadOnly, "it has 1000 bytes; expected 1001 or more"},
		{"what lies behind", f, 1001, 1, weft.ReadOnly, "expected 1002 or more"},
		{"an end beyond all numbers", f, 1<<63 - 1, 10, weft.ReadOnly, "it has 1000 bytes"},
		{"rights that are none", f, 0, 10, 7, "rights 7"},
	} {
		if _, err := b.RegisterFile(c.f, c.offset, c.n, c.rights); !errors.Is(err, weft.ErrBadArgument) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; expected ErrBadArgument, with %q", c.what, err, c.says)
		}
	}
	r, err := b.RegisterFile(f, 0, 1000, weft.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if there, known := isMapped(f.Name()); !there && known {
		t.Error("the file is not mapped")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if there, _ := isMapped(f.Name()); there {
		t.Error("the mapping outlives the region")
	}
}

// isMapped reports whether a file is mapped in this program. known is false if the system does
// not tell.
func isMapped(name string) (is, known bool) {
	maps, err := os.ReadFile("/proc/self/maps")
	return strings.Contains(string(maps), name), err == nil
}
