package memfile

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var localSeed = flag.Uint64("local.seed", 0, "the seed of the comparison of the file with a local one; 0: one of its own")

// The file behaves like a file of its size on a local filesystem, through any descriptor, and
// with the same errors. In the end the device has the written bytes.
func TestTheFileIsAsALocalOneOfItsSize(t *testing.T) {
	seed := *localSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-local.seed=%d", seed)
	const size = 1<<20 + 4096 - 96 // the last page is incomplete
	m := &memory{b: make([]byte, size)}
	ours := mounted(t, Config{Device: m})
	path := filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	local := open(t, path, unix.O_RDWR)
	both := [2]*either{{open(t, ours.Name(), unix.O_RDWR), open(t, ours.Name(), unix.O_RDWR|unix.O_DIRECT), false}, {local, local, true}}
	rng := rand.New(rand.NewPCG(seed, 0))
	for step := range 600 {
		op := draw(rng, size)
		var did [2]string
		for i, p := range both {
			did[i] = p.do(op)
		}
		if did[0] != did[1] {
			t.Fatalf("step %d, %+v: %.200s; a local file: %.200s", step, op, did[0], did[1])
		}
	}
	if err := ours.Sync(); err != nil {
		t.Error(err)
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(m.at(0, size), want) {
		t.Errorf("the device does not have what the local file has (%v)", err)
	}
}

// operation is an operation on a file.
type operation struct {
	what      string
	offset, n int64
	value     byte
	direct    bool // past the page cache
}

func draw(rng *rand.Rand, size int64) operation {
	op := operation{
		what:   []string{"read", "write", "write", "hole", "zeros", "same size", "sync", "forget", "end"}[rng.IntN(9)],
		offset: rng.Int64N(size + 5000), n: 1 + rng.Int64N([]int64{100, 9000, 300_000}[rng.IntN(3)]), value: byte(1 + rng.IntN(255)), direct: rng.IntN(4) == 0,
	}
	if op.direct || rng.IntN(3) == 0 {
		op.offset, op.n = op.offset&^4095, (op.n+4095)&^4095
	}
	if op.what == "write" && op.offset+op.n > size { // a local file would grow
		op.what = "read"
	}
	return op
}

// either is one of the two files. Some local filesystems lack descriptors that bypass the page
// cache, and zeros that need not be written.
type either struct {
	cached, direct int
	local          bool
}

func open(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// do executes an operation and returns its outcome as text.
func (p *either) do(op operation) string {
	fd := p.cached
	if op.direct {
		fd = p.direct
	}
	switch op.what {
	case "read":
		b := aligned(op.n)
		n, err := unix.Pread(fd, b, op.offset)
		return fmt.Sprintf("%d, %v: %x", n, err, b[:max(n, 0)])
	case "write":
		n, err := unix.Pwrite(fd, append(aligned(op.n)[:0], bytes.Repeat([]byte{op.value}, int(op.n))...), op.offset)
		return fmt.Sprintf("%d, %v", n, err)
	case "hole", "zeros":
		mode := map[string]uint32{"hole": unix.FALLOC_FL_PUNCH_HOLE, "zeros": unix.FALLOC_FL_ZERO_RANGE}[op.what]
		if p.local {
			return fmt.Sprint(p.writeZeros(op))
		}
		return fmt.Sprint(unix.Fallocate(fd, mode|unix.FALLOC_FL_KEEP_SIZE, op.offset, op.n))
	case "same size":
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		return fmt.Sprint(st.Size, err, unix.Ftruncate(fd, st.Size))
	case "sync":
		return fmt.Sprint(unix.Fsync(fd))
	case "forget": // drop what is in the page cache
		return fmt.Sprint(unix.Fadvise(fd, op.offset, op.n, unix.FADV_DONTNEED))
	default:
		at, err := unix.Seek(fd, 0, unix.SEEK_END)
		return fmt.Sprint(at, err)
	}
}

// writeZeros writes the part of an operation's zeros that lies within the file.
func (p *either) writeZeros(op operation) error {
	size, err := unix.Seek(p.cached, 0, unix.SEEK_END)
	if err != nil || op.offset >= size {
		return err
	}
	_, err = unix.Pwrite(p.cached, make([]byte, min(op.n, size-op.offset)), op.offset)
	return err
}

// aligned returns memory that O_DIRECT accepts.
func aligned(n int64) []byte {
	b := make([]byte, n+4096)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 4095
	return b[skip:][:n:n]
}
