package userfault

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pagedMemory counts the userfaultfds of this process, and its mappings of program memory.
func pagedMemory(t *testing.T) (uffds, mapped int) {
	t.Helper()
	const dir = "/proc/self/fd"
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "/" + fd.Name()); err == nil && strings.Contains(to, "[userfaultfd]") {
			uffds++
		}
	}
	all, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return uffds, strings.Count(string(all), "weft-mem")
}

// A refused program unmaps the memory and closes its userfaultfd. A program that has memory does so
// when it closes the memory.
func TestAProgramThatGivesItsMemoryBackKeepsNeitherMappingNorFaults(t *testing.T) {
	if err := Check(); err != nil {
		t.Skip(err)
	}
	for _, answer := range []string{"not so", accepted} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.ListenUnix(Network, &net.UnixAddr{Name: socket, Net: Network})
		if err != nil {
			t.Fatal(err)
		}
		r := without(t, &device{})
		backed(t, r, 256)
		uffds, mapped := pagedMemory(t)
		served := make(chan error, 1)
		go func() {
			conn, err := l.AcceptUnix()
			if err != nil {
				served <- err
				return
			}
			hello := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 1<<20), 4096)
			err = send(conn, hello, r.memfd)
			if fd, err := receive(conn, make([]byte, 8)); err == nil {
				unix.Close(fd)
			}
			_, err2 := conn.Write([]byte(answer))
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			_, err3 := conn.Read(make([]byte, 1)) // until the program has closed it
			if err3 == io.EOF {
				err3 = nil
			}
			conn.Close()
			served <- errors.Join(err, err2, err3)
		}()
		m, err := Attach(t.Context(), socket)
		if (err == nil) != (answer == accepted) {
			t.Fatalf("%q: %v", answer, err)
		}
		if m != nil {
			if u, at := pagedMemory(t); u != uffds+1 || at != mapped+1 {
				t.Errorf("with memory there are %d userfaultfds and %d mappings; expected one more than %d and %d", u, at, uffds, mapped)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-served; err != nil {
			t.Errorf("%q: %v", answer, err)
		}
		if u, at := pagedMemory(t); u != uffds || at != mapped {
			t.Errorf("%q: %d userfaultfds and %d mappings are left; expected %d and %d", answer, u, at, uffds, mapped)
		}
		l.Close()
		r.abort()
	}
}

// The buffers of a region are memory outside Go's heap. They are unmapped at its end.
func TestARegionThatIsClosedLeavesNoBuffers(t *testing.T) {
	p := &Pager{cfg: Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10, Timeout: time.Minute}, page: 4096}
	before := memories(t)
	r, err := newRegion(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	at, n := uintptr(unsafe.Pointer(unsafe.SliceData(r.bufs))), uintptr(len(r.bufs))
	mapped := func() bool { // nothing is changed by MADV_NORMAL
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, at, n, unix.MADV_NORMAL)
		return errno == 0
	}
	if !mapped() {
		t.Fatal("the buffers of a region are not mapped")
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if mapped() {
		t.Error("the buffers of a closed region are mapped")
	}
	if n := memories(t); n != before || r.ctx.Err() == nil {
		t.Errorf("%d descriptors of memory are left; the region has ended: %v", n-before, r.ctx.Err() != nil)
	}
}

// A packet with two descriptors is refused, and neither stays open.
func TestDescriptorsThatComeWithARefusedPacketAreClosed(t *testing.T) {
	for name, c := range map[string]struct{ bytes, descriptors int }{
		"too short":        {7, 1},
		"too long":         {9, 1},
		"two descriptors":  {8, 2},
		"three, cut short": {8, 3},
	} {
		there, here := packets(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fds := make([]int, c.descriptors)
		for i := range fds {
			fds[i] = int(w.Fd())
		}
		if _, _, err := there.WriteMsgUnix(make([]byte, c.bytes), unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if fd, err := receive(here, make([]byte, 8)); err == nil || fd != -1 {
			t.Errorf("%s: descriptor %d, %v; expected a refusal", name, fd, err)
		}
		if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the pipe says %v; expected its end: a descriptor of it is open", name, err)
		}
		r.Close()
	}
}

// If the region of a program ends, as when a page cannot be taken out, the program's connection
// ends, and with it the program. The next program gets the memory.
func TestAProgramWhoseRegionEndsLosesItsConnection(t *testing.T) {
	p, socket := serve(t, Config{Device: &device{b: make([]byte, 1<<20)}, Page: 4096, Resident: 256 << 10})
	for range 2 {
		conn, err := joined(t, socket)
		if err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		p.now.abort()
		p.mu.Unlock()
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the program reads %d bytes, %v; expected the end", n, err)
		}
	}
}

// A program must map all of its memory in order. It is refused if the beginning is right and the
// end is not.
func TestAMappingWhoseEndIsNotThatOfTheMemoryIsRefused(t *testing.T) {
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
	// The second half shows the first.
	half := unsafe.Pointer(&mem[size/2])
	if _, err := unix.MmapPtr(memfd, 0, half, size/2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
	fd, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := hand(conn, at(mem), fd); err == nil || !strings.Contains(err.Error(), "is not that of a shared mapping of all the memory") {
		t.Errorf("%v; expected a refusal", err)
	}
}
