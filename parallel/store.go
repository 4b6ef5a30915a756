package parallel

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Store keeps checkpoints for [Save] and [Load]. All ranks must reach the same objects. An object
// has a short name of letters and a dot. [Dir] is a Store in a directory. In network memory, use a
// shelf of package netmem, which each rank opens with the same key.
//
// If a Store has a method Align() int, Align returns a number of bytes above 0, which must be the
// same at all ranks. Then each rank begins to write at a multiple of it, and no two ranks write
// between two multiples. A [Shelf of package netmem] has this method, because it writes whole
// pages.
//
// [Shelf of package netmem]: https://pkg.go.dev/github.com/weftnet/weft/netmem#Shelf
type Store interface {
	// WriteAt writes b to an object at an offset. It creates the object if there is none. Several
	// ranks write different parts of an object concurrently.
	WriteAt(ctx context.Context, object string, b []byte, offset int64) error

	// ReadAt fills b with the bytes of an object from an offset on. It fails if the object is
	// shorter.
	ReadAt(ctx context.Context, object string, b []byte, offset int64) error

	// Sync waits until everything that this rank has written to an object survives a crash.
	Sync(ctx context.Context, object string) error

	// Replace replaces an object by one with the bytes b. After a crash, the object is either the
	// old one or the new one. When Replace returns, the new one survives a crash.
	Replace(ctx context.Context, object string, b []byte) error

	// Read returns a complete object. If there is no such object, Read fails with an error that
	// matches fs.ErrNotExist. If the object has more than most bytes, it fails with any error.
	Read(ctx context.Context, object string, most int) ([]byte, error)
}

// Dir is a [Store] in a directory that all ranks share, such as a directory on one host or on a
// network file system. Save creates the directory.
type Dir string

func (d Dir) path(object string) string { return filepath.Join(string(d), object) }

// open opens a file to read. It refuses a pipe, because opening a pipe waits for a writer.
func (d Dir) open(object string) (*os.File, error) {
	info, err := os.Stat(d.path(object))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", d.path(object))
	}
	return os.Open(d.path(object))
}

// WriteAt writes to a file.
func (d Dir) WriteAt(_ context.Context, object string, b []byte, offset int64) error {
	if err := os.MkdirAll(string(d), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(d.path(object), os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, offset); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// ReadAt reads from a file.
func (d Dir) ReadAt(_ context.Context, object string, b []byte, offset int64) error {
	f, err := d.open(object)
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := f.ReadAt(b, offset); n < len(b) {
		return err
	}
	return nil
}

// Sync flushes a file to its disk.
func (d Dir) Sync(_ context.Context, object string) error {
	f, err := os.OpenFile(d.path(object), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Replace writes a new file and renames it.
func (d Dir) Replace(ctx context.Context, object string, b []byte) error {
	if err := os.MkdirAll(string(d), 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), object+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	if _, err = f.Write(b); err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), d.path(object)); err != nil {
		return err
	}
	return d.syncNames()
}

// syncNames makes a rename in the directory survive a crash.
func (d Dir) syncNames() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Read reads a whole file.
func (d Dir) Read(_ context.Context, object string, most int) ([]byte, error) {
	f, err := d.open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s has more than %d bytes", object, most)
	}
	return b, err
}
