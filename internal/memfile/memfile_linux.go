// Package memfile presents the bytes of a device as a file. It is a filesystem with one file, by
// FUSE.
//
//	program ── read, write, mmap ──► kernel: page cache ── /dev/fuse ──► file ──► Device
//	                                                    DIR/memory
//
// The kernel caches reads and writes by mmap as for any file. So a mapping of the file is memory
// whose used parts are local and whose other parts are on the device.
package memfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/refusal"
)

// Device holds the bytes. Several goroutines may call its methods concurrently, with parts that
// lie within its size.
type Device interface {
	Size() int64
	ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error)
	WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error)
	Flush(ctx context.Context) error

	// Discard makes a part read as zeros, and frees the room that it took.
	Discard(ctx context.Context, offset, n int64) error
}

// Config configures a mount.
type Config struct {
	Device Device
	Source string // name in the list of mounts

	// Timeout is the time after which an operation fails if the device has not completed it;
	// zero: 30 s.
	Timeout time.Duration

	// Used, if set, returns the number of bytes of the device that take room. Statfs reports the
	// number.
	Used func() int64

	// Full reports whether an error of the device means that it has no room.
	Full func(error) bool

	// Log, if set, receives a text for each operation that failed because of the device.
	Log func(text string)
}

// Name is the name of the file.
const Name = "memory"

// maxTransfer is the largest number of bytes of one request of the kernel. maxBackground is the
// largest number of such requests that the kernel has in flight for writes of its page cache.
// With a smaller number, an fsync would wait for more timeouts, one after another.
const (
	maxTransfer   = 1 << 20
	maxBackground = 64
)

// Mount is a mounted filesystem.
type Mount struct {
	dir    string
	server *fuse.Server
	file   *file
}

// New mounts a filesystem on an empty directory.
func New(dir string, cfg Config) (*Mount, error) {
	switch inside, err := os.ReadDir(dir); {
	case errors.Is(err, unix.ENOTCONN):
		return nil, fmt.Errorf(
			"memfile: %w: the process that has mounted it was killed; expected it to be unmounted (umount %s)",
			err, dir)
	case err != nil:
		return nil, fmt.Errorf("memfile: %w", err)
	case len(inside) > 0:
		return nil, fmt.Errorf("memfile: %s has %q in it; expected an empty directory", dir, inside[0].Name())
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Full == nil {
		cfg.Full = func(error) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	if err := device(); err != nil {
		return nil, fmt.Errorf("memfile: mount %s: %w", dir, err)
	}
	f := &file{cfg: cfg, since: time.Now()}
	always := time.Hour
	server, err := fs.Mount(dir, &root{file: f}, &fs.Options{
		// Only users other than root try fusermount. For root, the error about a missing
		// fusermount would hide the real reason.
		MountOptions: fuse.MountOptions{FsName: cfg.Source, Name: "weft", DirectMount: true,
			DirectMountStrict: os.Geteuid() == 0, MaxWrite: maxTransfer, MaxReadAhead: maxTransfer,
			MaxBackground: maxBackground, DisableXAttrs: true},
		EntryTimeout: &always,
		AttrTimeout:  &always,
	})
	if err != nil {
		return nil, fmt.Errorf("memfile: mount %s: %w", dir, refused(err))
	}
	return &Mount{dir, server, f}, nil
}

// device checks whether this process may use the kernel's FUSE.
func device() error {
	const path = "/dev/fuse"
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, unix.EPERM):
		return &refusal.Refusal{Call: "open " + path, Err: unix.EPERM,
			Limit: "the devices of this container or service do not include it",
			Cure:  "add it, with --device /dev/fuse or DeviceAllow="}
	case errors.Is(err, unix.EACCES):
		return nil // fusermount opens it as root
	}
	return fmt.Errorf("%w; expected a kernel with FUSE", err)
}

// refused returns the error of a failed mount with its reason. Without root, fusermount does the
// mount.
func refused(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("%w (%w)", refusal.Of("mount", 0, unix.EPERM), err)
	}
	return refusal.Of("mount", 0, err)
}

// Wait waits until the filesystem is unmounted, by any program.
func (m *Mount) Wait() { m.server.Wait() }

// Close unmounts the filesystem. If the filesystem is in use, Close removes it from the
// directory, so that no dead mount remains there, and fails. Users of the file can then continue
// until this process ends.
//
// Close ends the operations that wait for the device. The operations that unmounting begins get
// little time, because their bytes end with the mount.
func (m *Mount) Close() error {
	m.file.outage.end()
	if m.server.Unmount() == nil {
		return nil
	}
	if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("memfile: unmount %s: %w", m.dir, err)
	}
	return fmt.Errorf(
		"memfile: unmount %s: %w; it has left the directory, and what uses it fails when this process has ended",
		m.dir, unix.EBUSY)
}

// root is the directory.
type root struct {
	fs.Inode
	file *file
}

var (
	_ fs.NodeOnAdder  = (*root)(nil)
	_ fs.NodeFsyncer  = (*root)(nil)
	_ fs.NodeStatfser = (*root)(nil)
)

// OnAdd puts the file into the directory.
func (r *root) OnAdd(ctx context.Context) {
	r.AddChild(Name, r.NewPersistentInode(ctx, r.file, fs.StableAttr{Mode: fuse.S_IFREG}), false)
}

// Fsync returns when the bytes of the file are stored. The directory itself never changes.
func (r *root) Fsync(ctx context.Context, h fs.FileHandle, flags uint32) syscall.Errno {
	return r.file.Fsync(ctx, h, flags)
}

// Statfs reports the size and the use of the device.
func (r *root) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	return r.file.Statfs(ctx, out)
}

// file is the only file of the filesystem.
type file struct {
	fs.Inode
	cfg    Config
	since  time.Time
	outage outage
}

var (
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
	_ fs.NodeAllocater = (*file)(nil)
	_ fs.NodeStatfser  = (*file)(nil)
)

// mode allows only the owner to read and write the file.
const mode = 0o600

// Getattr returns the size and the owner of the file. It reports blocks for the whole size,
// because programs take a file without blocks for a hole and do not read it.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink, out.Size, out.Blksize = fuse.S_IFREG|mode, 1, uint64(f.cfg.Device.Size()), blockBytes
	out.Blocks = (out.Size + 511) / 512
	out.Uid, out.Gid = uint32(os.Getuid()), uint32(os.Getgid())
	out.SetTimes(&f.since, &f.since, &f.since)
	return 0
}

// blockBytes is the unit in which stat and statfs count.
const blockBytes = 4096

// Statfs reports the size and the use of the device, and that there is no room for another file.
func (f *file) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	size, used := f.cfg.Device.Size(), int64(0)
	if f.cfg.Used != nil {
		used = min(max(f.cfg.Used(), 0), size)
	}
	out.Bsize, out.Frsize, out.NameLen = blockBytes, blockBytes, uint32(len(Name))
	out.Blocks = uint64((size + blockBytes - 1) / blockBytes)
	out.Bfree = uint64((size - used) / blockBytes)
	out.Bavail, out.Files = out.Bfree, 2 // the directory and its file
	return 0
}

// Setattr accepts only settings that change nothing: the size, the owner and the mode must stay.
func (f *file) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, sized := in.GetSize()
	perm, permitted := in.GetMode()
	uid, owned := in.GetUID()
	gid, grouped := in.GetGID()
	switch {
	case sized && size != uint64(f.cfg.Device.Size()), permitted && perm&0o7777 != mode,
		owned && int(uid) != os.Getuid(), grouped && int(gid) != os.Getgid():
		return syscall.EPERM
	}
	return f.Getattr(ctx, h, out)
}

// Open lets the kernel keep its cache, because no other program changes the file.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read reads bytes of the device.
func (f *file) Read(ctx context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	var n int
	errno := f.do(ctx, "read", offset, int64(len(dest)), func(ctx context.Context) (err error) {
		if n, err = f.cfg.Device.ReadAtContext(ctx, dest, offset); errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	return fuse.ReadResultData(dest[:n]), errno
}

// Write writes bytes to the device.
func (f *file) Write(ctx context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	if room := f.cfg.Device.Size() - offset; room < int64(len(data)) {
		if room <= 0 {
			return 0, syscall.EFBIG
		}
		data = data[:room]
	}
	errno := f.do(ctx, "write", offset, int64(len(data)), func(ctx context.Context) error {
		_, err := f.cfg.Device.WriteAtContext(ctx, data, offset)
		return err
	})
	if errno != 0 {
		return 0, errno
	}
	return uint32(len(data)), 0
}

// Fsync returns when the written bytes are stored.
func (f *file) Fsync(ctx context.Context, _ fs.FileHandle, _ uint32) syscall.Errno {
	return f.do(ctx, "fsync", 0, 0, f.cfg.Device.Flush)
}

// Allocate makes holes. All other modes of fallocate would change the size, or take room without
// use.
func (f *file) Allocate(ctx context.Context, _ fs.FileHandle, offset, n uint64, mode uint32) syscall.Errno {
	const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if mode != hole && mode&^uint32(unix.FALLOC_FL_KEEP_SIZE) != unix.FALLOC_FL_ZERO_RANGE {
		return syscall.EOPNOTSUPP
	}
	size := uint64(f.cfg.Device.Size())
	if mode&unix.FALLOC_FL_KEEP_SIZE == 0 && (offset > size || n > size-offset) {
		return syscall.EFBIG // otherwise the kernel would assume a longer file
	}
	if offset >= size {
		return 0
	}
	// A hole may have gigabytes, so each part has its own time limit.
	for end := offset + min(n, size-offset); offset < end; {
		part := min(end-offset, maxTransfer-offset%maxTransfer)
		errno := f.do(ctx, "discard", int64(offset), int64(part), func(ctx context.Context) error {
			return f.cfg.Device.Discard(ctx, int64(offset), int64(part))
		})
		if errno != 0 {
			return errno
		}
		offset += part
	}
	return 0
}

// do runs an operation of the device within its time limit.
func (f *file) do(ctx context.Context, what string, offset, n int64, op func(context.Context) error) syscall.Errno {
	// A signal to the program must not end a write in the middle. So the cancellation of ctx is
	// ignored.
	ctx, limit, done := f.outage.begin(context.WithoutCancel(ctx), f.cfg.Timeout)
	err := op(ctx)
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	ended := context.Cause(ctx) == errClosing
	done(err == nil, late)
	switch {
	case err == nil:
		return 0
	case f.cfg.Full(err):
		return syscall.ENOSPC
	case ended: // the unmounting program knows
		return syscall.EIO
	case late:
		err = fmt.Errorf("not done within %v: %w", limit, err)
	}
	f.cfg.Log(fmt.Sprintf("%s of %d bytes at %d fails: %v", what, n, offset, err))
	return syscall.EIO
}
