package memfile

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// The directory has one file, which cannot be removed, because no other way leads to the bytes.
// Each operation that would change the directory fails with EPERM, as POSIX specifies for a
// filesystem without this operation. The library would answer with EROFS or ENOTSUP, and programs
// would take this for a broken mount.

var (
	_ fs.NodeUnlinker  = (*root)(nil)
	_ fs.NodeRmdirer   = (*root)(nil)
	_ fs.NodeRenamer   = (*root)(nil)
	_ fs.NodeCreater   = (*root)(nil)
	_ fs.NodeMkdirer   = (*root)(nil)
	_ fs.NodeMknoder   = (*root)(nil)
	_ fs.NodeLinker    = (*root)(nil)
	_ fs.NodeSymlinker = (*root)(nil)
)

// Unlink refuses to remove the file.
func (r *root) Unlink(context.Context, string) syscall.Errno { return syscall.EPERM }

// Rmdir refuses to remove a directory.
func (r *root) Rmdir(context.Context, string) syscall.Errno { return syscall.EPERM }

// Rename refuses to rename the file.
func (r *root) Rename(context.Context, string, fs.InodeEmbedder, string, uint32) syscall.Errno {
	return syscall.EPERM
}

// Create refuses to make another file.
func (r *root) Create(
	context.Context, string, uint32, uint32, *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, syscall.EPERM
}

// Mkdir refuses to make a directory.
func (r *root) Mkdir(context.Context, string, uint32, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Mknod refuses to make a special file.
func (r *root) Mknod(context.Context, string, uint32, uint32, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Link refuses to give the file another name.
func (r *root) Link(context.Context, fs.InodeEmbedder, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// Symlink refuses to make a link.
func (r *root) Symlink(context.Context, string, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}
