package memfd

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// File is a file in memory. Its owner closes FD.
type File struct {
	FD     int
	Sealed bool  // it can be sealed; false: it lies on a tmpfs
	Why    error // why it cannot
}

// Create makes an empty file in memory. name shows in /proc alone.
//
// A file on a tmpfs cannot be sealed. A process that has the file open for writing can truncate it.
// So do not give the file to a process of another user. The file has no name, and its mode is 0600.
func Create(name string) (File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	switch {
	case err == nil:
		return File{FD: fd, Sealed: true}, nil
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EACCES):
		return File{FD: -1}, refusal.Of("memfd_create", 0, err)
	}
	why := refusal.Of("memfd_create", 0, err)
	errs := []error{why}
	for _, dir := range []string{"/dev/shm", os.Getenv("XDG_RUNTIME_DIR")} {
		if dir == "" {
			continue
		}
		fd, err := nameless(dir)
		if err == nil {
			return File{FD: fd, Why: why}, nil
		}
		errs = append(errs, fmt.Errorf("a file in %s in its place: %w", dir, err))
	}
	return File{FD: -1}, errors.Join(errs...)
}

// nameless makes a file without a name on the tmpfs at dir. O_EXCL forbids to give it one.
func nameless(dir string) (int, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return -1, err
	}
	if st.Type != unix.TMPFS_MAGIC {
		return -1, errors.New("it is no tmpfs")
	}
	return unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
}

// Seal adds seals, if the file can be sealed.
func (f File) Seal(seals int) error {
	if !f.Sealed {
		return nil
	}
	if _, err := unix.FcntlInt(uintptr(f.FD), unix.F_ADD_SEALS, seals|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	return nil
}

// Grow gives the file its length, in bytes.
func (f File) Grow(bytes int64) error {
	if err := unix.Ftruncate(f.FD, bytes); err != nil {
		return refusal.Of("ftruncate", bytes, err)
	}
	return nil
}

// ReadOnly returns a descriptor of the file that cannot write it, for a process that may only read.
// The caller closes it.
func (f File) ReadOnly() (int, error) {
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.FD), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
