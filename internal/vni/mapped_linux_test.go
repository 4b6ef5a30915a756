package vni

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipeBell is a bell between processes: a pipe that one process writes to without blocking, and on
// which the other waits.
type pipeBell struct{ r, w *os.File }

func newPipeBell(t *testing.T) pipeBell {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return pipeBell{r, w}
}

func (b pipeBell) ring() { b.w.Write([]byte{1}) }

func (b pipeBell) wait() error {
	b.r.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := b.r.Read(make([]byte, 1<<12))
	return err
}

func mapped(t *testing.T, fd, size, prot int) []byte {
	t.Helper()
	b, err := syscall.Mmap(fd, 0, size, prot, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(b) })
	return b
}

const mappedTotal = 20000

var mappedGeometry = Geometry{Commands: 32, Contexts: 16, Descriptors: 2, PoolPages: 1, Colour: 7}

// TestHammerByTwoProcesses runs the NIC. It starts this binary again as the process, which maps
// the read-only area without the right to write.
func TestHammerByTwoProcesses(t *testing.T) {
	if os.Getenv("WEFT_VNI_CHILD") != "" {
		mappedChild(t)
		return
	}
	nrw, nro := mappedGeometry.Sizes()
	var files []*os.File
	for _, size := range []int{nrw, nro} {
		fd, err := unix.MemfdCreate("weft-vni-test", unix.MFD_CLOEXEC)
		if err != nil {
			t.Skipf("no memfd here: %v", err)
		}
		f := os.NewFile(uintptr(fd), "segment")
		t.Cleanup(func() { f.Close() })
		if err := f.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	rw := mapped(t, int(files[0].Fd()), nrw, syscall.PROT_READ|syscall.PROT_WRITE)
	ro := mapped(t, int(files[1].Fd()), nro, syscall.PROT_READ|syscall.PROT_WRITE)
	s, err := NewSegment(rw, ro, mappedGeometry)
	if err != nil {
		t.Fatal(err)
	}
	kick, wake := newPipeBell(t), newPipeBell(t)
	child := exec.Command(os.Args[0], "-test.run=^TestHammerByTwoProcesses$", "-test.v")
	child.Env = append(os.Environ(), "WEFT_VNI_CHILD=1")
	child.ExtraFiles = []*os.File{files[0], files[1], kick.w, wake.r}
	type result struct {
		out []byte
		err error
	}
	ended := make(chan result, 1)
	go func() {
		out, err := child.CombinedOutput()
		ended <- result{out, err}
	}()
	sleeps, err := hammerNIC(s.NIC(), mappedTotal, kick, wake)
	r := <-ended
	if err := errors.Join(err, r.err); err != nil {
		t.Fatalf("%v\nchild:\n%s", err, r.out)
	}
	t.Logf("the NIC stopped listening %d times", sleeps)
}

func mappedChild(t *testing.T) {
	nrw, nro := mappedGeometry.Sizes()
	rw := mapped(t, 3, nrw, syscall.PROT_READ|syscall.PROT_WRITE)
	ro := mapped(t, 4, nro, syscall.PROT_READ)
	// The parent's Go runtime made them non-blocking; os.NewFile checks that.
	for _, fd := range []int{5, 6} {
		if err := syscall.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenSegment(rw, ro)
	if err != nil {
		t.Fatal(err)
	}
	kick, wake := pipeBell{w: os.NewFile(5, "kick")}, pipeBell{r: os.NewFile(6, "wake")}
	if err := hammerProcess(s.Process(), mappedTotal, kick, wake); err != nil {
		t.Fatal(fmt.Errorf("process: %w", err))
	}
}
