//go:build unix

package stage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"
)

// Have implements [Store]. It hashes the whole file, and removes a file whose hash differs.
func (c *Cache) Have(m *Manifest) (Content, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	f, err := c.openEntry(m)
	if err != nil {
		return nil, err
	}
	if err := m.whole(f); err != nil {
		err = errors.Join(fs.ErrNotExist, err, f.Close(), gone(c.root.Remove(entry(m))))
		return nil, err
	}
	now := time.Now()
	_ = c.root.Chtimes(entry(m), now, now) // it is now the last to be removed for room
	return f, nil
}

func entry(m *Manifest) string { return entriesDir + "/" + m.SHA256 }

// openEntry opens a complete file. Anything but a regular file of the user counts as missing.
func (c *Cache) openEntry(m *Manifest) (*os.File, error) {
	seen, err := c.root.Lstat(entry(m))
	if err != nil {
		return nil, err
	}
	fits := func(st fs.FileInfo) bool {
		return st.Mode().IsRegular() && owned(st) && st.Size() == m.SizeBytes
	}
	if !fits(seen) {
		return nil, errors.Join(fs.ErrNotExist, gone(c.root.RemoveAll(entry(m))))
	}
	f, err := c.root.Open(entry(m))
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !(fits(st) && os.SameFile(st, seen)) { // it was replaced meanwhile
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Draft implements [Store].
func (c *Cache) Draft(m *Manifest) (Draft, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if m.SizeBytes > c.bound {
		return nil, fmt.Errorf("a file of %d bytes; expected at most the %d bytes of the cache %s",
			m.SizeBytes, c.bound, c.path)
	}
	// The number only has to differ from those of other drafts: O_EXCL refuses a name that
	// exists.
	name := draftsDir + "/" + strconv.FormatUint(rand.Uint64(), 16)
	f, err := c.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	d := &draft{File: f, c: c, m: m, name: name}
	if err := f.Truncate(m.SizeBytes); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// draft is a file that is arriving.
type draft struct {
	*os.File
	c    *Cache
	m    *Manifest
	name string // "": it has become an entry
}

// Close implements [Draft]. Until then no process can execute the file, since it is open for
// writing.
func (d *draft) Close() error {
	err := d.File.Close()
	if d.name != "" {
		err = errors.Join(err, gone(d.c.root.Remove(d.name)))
		d.name = ""
	}
	return err
}

// Commit implements [Draft].
func (d *draft) Commit() (Content, error) {
	if err := d.m.whole(d.File); err != nil {
		return nil, err
	}
	if err := d.Chmod(ModeProgram); err != nil {
		return nil, err
	}
	unlock, err := d.c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := d.c.makeRoom(d.m); err != nil {
		return nil, err
	}
	if err := d.c.root.Rename(d.name, entry(d.m)); err != nil {
		return nil, err
	}
	d.name = ""
	return d.c.openEntry(d.m)
}

// makeRoom removes the entries that were used least recently until a new one fits.
func (c *Cache) makeRoom(m *Manifest) error {
	list, err := fs.ReadDir(c.root.FS(), entriesDir)
	if err != nil {
		return err
	}
	var there []fs.FileInfo
	total := m.SizeBytes
	for _, d := range list {
		if st, err := d.Info(); err == nil && d.Name() != m.SHA256 {
			there = append(there, st)
			total += st.Size()
		}
	}
	slices.SortFunc(there, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, st := range there {
		if total <= c.bound {
			return nil
		}
		if err := gone(c.root.RemoveAll(entriesDir + "/" + st.Name())); err != nil {
			return err
		}
		total -= st.Size()
	}
	return nil
}
