//go:build unix

package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/internal/vni"
)

// Place is the directory of one job on one host. No other user can see its files.
type Place struct {
	c    *Cache
	name string   // below jobsDir
	lock *os.File // held for the life of the job
}

// Place makes the directory of a job on a host. A job is named like the application of its ranks.
// Place fails if another process has the directory.
func (c *Cache) Place(job string, host int) (*Place, error) {
	if _, err := vni.MakeName(job, 0); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	p := &Place{c: c, name: job + "-" + strconv.Itoa(host)}
	unlock, err := c.lock()
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	defer unlock()
	if err := p.make(); err != nil {
		return nil, fmt.Errorf("stage: directory of job %s on host %d: %w", job, host, err)
	}
	return p, nil
}

func (p *Place) dir() string      { return jobsDir + "/" + p.name }
func (p *Place) lockFile() string { return p.dir() + ".lock" }

// make makes the directory anew, under the lock of the cache.
func (p *Place) make() (err error) {
	if p.lock, err = p.c.openLock(p.lockFile()); err != nil {
		return err
	}
	err = flock(p.lock, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w: another process has it", err)
	}
	if err == nil {
		err = p.c.root.RemoveAll(p.dir())
	}
	if err == nil {
		err = p.c.root.Mkdir(p.dir(), 0o700)
	}
	if err != nil {
		return errors.Join(err, p.lock.Close())
	}
	return nil
}

// Dir returns the path of the directory.
func (p *Place) Dir() string { return filepath.Join(p.c.path, jobsDir, p.name) }

// Put places content into the directory under the name and with the mode of its manifest, and
// returns the path. The content must come from the cache: Put links its file into the directory.
// If the entry of the cache is no longer that file, or if the mode differs, Put copies the
// content.
func (p *Place) Put(m *Manifest, content Content) (path string, err error) {
	if err := m.Check(); err != nil {
		return "", err
	}
	name := p.dir() + "/" + m.Name
	if !p.link(m, content, name) {
		if err := p.copy(m, content, name); err != nil {
			return "", fmt.Errorf("stage: place %s: %w", m.Name, err)
		}
	}
	return filepath.Join(p.Dir(), m.Name), nil
}

// link links the file of the content, and reports whether it succeeded.
func (p *Place) link(m *Manifest, content Content, name string) bool {
	f, is := content.(*os.File)
	if !is || m.Mode != ModeProgram || p.c.root.Link(entry(m), name) != nil {
		return false
	}
	has, err := f.Stat()
	got, err2 := p.c.root.Lstat(name)
	if err != nil || err2 != nil || !os.SameFile(has, got) || got.Mode() != ModeProgram {
		_ = p.c.root.Remove(name)
		return false
	}
	return true
}

// copy writes the content anew. The copy is closed before it gets its mode, so it can be executed.
func (p *Place) copy(m *Manifest, content Content, name string) error {
	f, err := p.c.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(content, 0, m.SizeBytes))
	if err == nil {
		err = m.whole(f)
	}
	if err == nil {
		err = f.Chmod(m.Mode)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, gone(p.c.root.Remove(name)))
	}
	return nil
}

// Remove removes the directory with all files in it. Call it after the job's processes have ended.
func (p *Place) Remove() error {
	unlock, err := p.c.lock()
	if err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	defer unlock()
	err = errors.Join(p.c.root.RemoveAll(p.dir()), gone(p.c.root.Remove(p.lockFile())), p.lock.Close())
	if err != nil {
		return fmt.Errorf("stage: remove the directory of a job: %w", err)
	}
	return nil
}
