// Package memfile shows bytes that are elsewhere as a file: a filesystem with one file, by FUSE.
//
//	program ── read, write, mmap ──► kernel: page cache ── /dev/fuse ──► file ──► Device
//	                                                    DIR/memory
//
// The kernel caches what it has read and written by mmap, as of any file: a mapping of the file is memory of which the parts in use are
// local, and the rest elsewhere.
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

// Device has the bytes. Its methods may be called from several goroutines at once, with parts that lie within its size.
type Device interface {
	Size() int64
	ReadAtContext(ctx context.Context, b []byte, offset int64) (int, error)
	WriteAtContext(ctx context.Context, b []byte, offset int64) (int, error)
	Flush(ctx context.Context) error

	// Discard makes a part read as zeros, and frees what room it took.
	Discard(ctx context.Context, offset, n int64) error
}

// Config configures a mount.
type Config struct {
	Device Device
	Source string // what the list of mounts shows

	// Timeout is after what time an operation that the device does not come to an end with fails; zero: 30 s.
	Timeout time.Duration

	// Used, if set, returns how many bytes of the device take room. Statfs reports the number.
	Used func() int64

	// Full reports whether an error of the device says that it has no room.
	Full func(error) bool

	// Log, if set, is told which operations failed for want of the device.
	Log func(text string)
}

// Name is the name of the file.
const Name = "memory"

// maxTransfer is the most bytes of one request of the kernel. maxBackground is how many such requests
// the kernel has in flight for writes of its page cache. Fewer would make an fsync wait for more
// timeouts, one after the other.
const (
	maxTransfer   = 1 << 20
	maxBackground = 64
)

// Mount is a filesystem that is mounted.
type Mount struct {
	dir    string
	server *fuse.Server
	file   *file
}

// New mounts a filesystem on an empty directory.
func New(dir string, cfg Config) (*Mount, error) {
	switch inside, err := os.ReadDir(dir); {
	case errors.Is(err, unix.ENOTCONN):
		return nil, fmt.Errorf("memfile: %w: the process that has mounted it was killed; expected it to be unmounted (umount %s)", err, dir)
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
		// Only others than root try fusermount: for root its absence would take the place of the reason.
		MountOptions: fuse.MountOptions{FsName: cfg.Source, Name: "weft", DirectMount: true, DirectMountStrict: os.Geteuid() == 0, MaxWrite: maxTransfer, MaxReadAhead: maxTransfer,
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
		return &refusal.Refusal{Call: "open " + path, Err: unix.EPERM, Limit: "the devices of this container or service do not include it",
			Cure: "add it, with --device /dev/fuse or DeviceAllow="}
	case errors.Is(err, unix.EACCES):
		return nil // fusermount opens it as root
	}
	return fmt.Errorf("%w; expected a kernel with FUSE", err)
}

// refused says why a mount failed. Without root it is fusermount that mounts.
func refused(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("%w (%w)", refusal.Of("mount", 0, unix.EPERM), err)
	}
	return refusal.Of("mount", 0, err)
}

// Wait waits until the filesystem is unmounted, by whatever program.
func (m *Mount) Wait() { m.server.Wait() }

// Close unmounts the filesystem. If it is in use, it leaves the directory, too, so that no mount is left that nothing serves: what uses it can go on until this
// process ends, and Close fails.
//
// Close ends the operations that wait for the device, and gives those that unmounting begins little
// time: their bytes end with the mount.
func (m *Mount) Close() error {
	m.file.outage.end()
	if m.server.Unmount() == nil {
		return nil
	}
	if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("memfile: unmount %s: %w", m.dir, err)
	}
	return fmt.Errorf("memfile: unmount %s: %w; it has left the directory, and what uses it fails when this process has ended", m.dir, unix.EBUSY)
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

// OnAdd puts the file into it.
func (r *root) OnAdd(ctx context.Context) {
	r.AddChild(Name, r.NewPersistentInode(ctx, r.file, fs.StableAttr{Mode: fuse.S_IFREG}), false)
}

// Fsync returns when the bytes of the file are where they are kept. The directory itself never
// changes.
func (r *root) Fsync(ctx context.Context, h fs.FileHandle, flags uint32) syscall.Errno {
	return r.file.Fsync(ctx, h, flags)
}

// Statfs reports the size and the use of the device.
func (r *root) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	return r.file.Statfs(ctx, out)
}

// file is the file.
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

// mode lets the owner read and write the file, and no other user.
const mode = 0o600

// Getattr says how large the file is, and whose. It has blocks for all of its size: programs take one without blocks for a hole, and do not read it.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink, out.Size, out.Blksize = fuse.S_IFREG|mode, 1, uint64(f.cfg.Device.Size()), blockBytes
	out.Blocks = (out.Size + 511) / 512
	out.Uid, out.Gid = uint32(os.Getuid()), uint32(os.Getgid())
	out.SetTimes(&f.since, &f.since, &f.since)
	return 0
}

// blockBytes is the unit in which stat and statfs count.
const blockBytes = 4096

// Statfs reports the size and the use of the device, and that no other file fits in.
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

// Setattr takes what changes nothing that is kept: the size stays, and so do the owner and the mode.
func (f *file) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, sized := in.GetSize()
	perm, permitted := in.GetMode()
	uid, owned := in.GetUID()
	gid, grouped := in.GetGID()
	switch {
	case sized && size != uint64(f.cfg.Device.Size()), permitted && perm&0o7777 != mode, owned && int(uid) != os.Getuid(), grouped && int(gid) != os.Getgid():
		return syscall.EPERM
	}
	return f.Getattr(ctx, h, out)
}

// Open lets the kernel keep what it has cached: no other program changes it.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read reads.
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

// Write writes.
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

// Fsync returns when what was written is where it is kept.
func (f *file) Fsync(ctx context.Context, _ fs.FileHandle, _ uint32) syscall.Errno {
	return f.do(ctx, "fsync", 0, 0, f.cfg.Device.Flush)
}

// Allocate makes holes. All else that fallocate does would change the size, or take room for nothing.
func (f *file) Allocate(ctx context.Context, _ fs.FileHandle, offset, n uint64, mode uint32) syscall.Errno {
	const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if mode != hole && mode&^uint32(unix.FALLOC_FL_KEEP_SIZE) != unix.FALLOC_FL_ZERO_RANGE {
		return syscall.EOPNOTSUPP
	}
	size := uint64(f.cfg.Device.Size())
	if mode&unix.FALLOC_FL_KEEP_SIZE == 0 && (offset > size || n > size-offset) {
		return syscall.EFBIG // the kernel would take the file for longer
	}
	if offset >= size {
		return 0
	}
	for end := offset + min(n, size-offset); offset < end; { // a hole may be of gigabytes: each part has its own time
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

// do has the device do something, within the time that it may take.
func (f *file) do(ctx context.Context, what string, offset, n int64, op func(context.Context) error) syscall.Errno {
	// A signal to the program does not end a write in the middle: ctx, which it would end, has no say.
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
	case ended: // the program that unmounts knows
		return syscall.EIO
	case late:
		err = fmt.Errorf("not done within %v: %w", limit, err)
	}
	f.cfg.Log(fmt.Sprintf("%s of %d bytes at %d fails: %v", what, n, offset, err))
	return syscall.EIO
}
