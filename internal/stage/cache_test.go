//go:build unix

package stage

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/internal/limits"
)

func newCache(t *testing.T, dir string) *Cache {
	t.Helper()
	c, err := OpenCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func cacheDir(t *testing.T) string { return filepath.Join(t.TempDir(), "weft", "stage") }

// store puts content into a cache by a draft.
func store(t *testing.T, c *Cache, m *Manifest, content []byte) Content {
	t.Helper()
	d, err := c.Draft(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	got, err := d.Commit()
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Close() })
	return got
}

func (c *Cache) has(t *testing.T, m *Manifest) bool {
	t.Helper()
	content, err := c.Have(m)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return false
	}
	_ = content.Close()
	return true
}

var script = []byte("#!/bin/sh\necho staged\n")

func TestAStagedProgramRunsFromTheDirectoryOfItsJob(t *testing.T) {
	c := newCache(t, cacheDir(t))
	m := manifestOf(t, script, "prog")
	content := store(t, c, m, script)
	place, err := c.Place("job-1a2b3c4d", 3)
	if err != nil {
		t.Fatal(err)
	}
	path, err := place.Put(m, content)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(path) != place.Dir() || !strings.HasPrefix(path, c.path+"/") {
		t.Errorf("the program is at %s; expected it in %s", path, place.Dir())
	}
	if out, err := exec.Command(path).CombinedOutput(); string(out) != "staged\n" {
		t.Errorf("the program says %q, %v", out, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o500 {
		t.Errorf("the program has %v, %v; expected mode 0500", st, err)
	}
	if err := place.Remove(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(c.path, jobsDir)); len(left) > 0 || err != nil {
		t.Errorf("the job leaves %v, %v", left, err)
	}
	if !c.has(t, m) {
		t.Error("the cache lost the program with the job")
	}
}

func TestTheEntryOfAnotherFileIsNotLinked(t *testing.T) {
	c := newCache(t, cacheDir(t))
	m := manifestOf(t, script, "prog")
	content := store(t, c, m, script)
	other := filepath.Join(c.path, entry(m))
	if err := errors.Join(os.Remove(other), os.WriteFile(other, []byte("#!/bin/sh\necho replaced\n"), 0o500)); err != nil {
		t.Fatal(err)
	}
	place, err := c.Place("job-1a2b3c4d", 0)
	if err != nil {
		t.Fatal(err)
	}
	path, err := place.Put(m, content)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); !bytes.Equal(got, script) {
		t.Errorf("placed is %q, %v", got, err)
	}
}

func TestAChangedEntryIsRemovedAndNotUsed(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"other content of the same length": func(path string) error {
			return errors.Join(os.Chmod(path, 0o700), os.WriteFile(path, bytes.ToUpper(script), 0o700))
		},
		"a shorter file": func(path string) error { return errors.Join(os.Chmod(path, 0o700), os.Truncate(path, 3)) },
		"a link": func(path string) error {
			to := path + ".to"
			return errors.Join(os.WriteFile(to, script, 0o500), os.Remove(path), os.Symlink(filepath.Base(to), path))
		},
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		c := newCache(t, cacheDir(t))
		m := manifestOf(t, script, "prog")
		store(t, c, m, script)
		if err := change(filepath.Join(c.path, entry(m))); err != nil {
			t.Fatal(err)
		}
		if c.has(t, m) {
			t.Errorf("%s: the cache returns it", what)
		}
		if _, err := os.Lstat(filepath.Join(c.path, entry(m))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is still there (%v)", what, err)
		}
		if store(t, c, m, script); !c.has(t, m) {
			t.Errorf("%s: the cache does not take the right content afterwards", what)
		}
	}
}

func TestWrongContentDoesNotBecomeAnEntry(t *testing.T) {
	c := newCache(t, cacheDir(t))
	m := manifestOf(t, script, "prog")
	d, err := c.Draft(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteAt(bytes.ToUpper(script), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Commit(); !errors.Is(err, ErrContent) {
		t.Errorf("Commit says %v; expected ErrContent", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if c.has(t, m) {
		t.Error("the cache has it")
	}
	if left, _ := os.ReadDir(filepath.Join(c.path, draftsDir)); len(left) > 0 {
		t.Errorf("drafts are left: %v", left)
	}
}

func TestTheCacheRefusesDirectoriesThatOthersCouldChange(t *testing.T) {
	for what, prepare := range map[string]func(dir string) error{
		"has mode 0755; expected 0700; `chmod 700": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"is not a directory":                       func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"not a directory; expected one of user":    func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"`chmod go-w": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(filepath.Dir(dir), 0o777))
		},
		"entries is not a directory": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink("/tmp", filepath.Join(dir, "entries")))
		},
		"drafts has mode 0777": func(dir string) error {
			sub := filepath.Join(dir, "drafts")
			return errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(sub, 0o700), os.Chmod(sub, 0o777))
		},
	} {
		dir := filepath.Join(t.TempDir(), "stage")
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenCache(dir); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), what) {
			t.Errorf("OpenCache says %v; expected ErrUnsafe with %q", err, what)
		}
	}
}

func TestTheCacheRefusesTheDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory of another user")
	}
	dir := filepath.Join(t.TempDir(), "stage")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(dir); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("OpenCache says %v; expected ErrUnsafe", err)
	}
}

// The owner of a directory can replace its entries, also with the sticky bit.
func TestTheCacheRefusesAPlaceInTheDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory of another user")
	}
	for _, mode := range []fs.FileMode{0o755, 0o777 | fs.ModeSticky} {
		above := t.TempDir()
		dir := filepath.Join(above, "stage")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(above, mode), os.Chown(above, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenCache(dir); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("mode %v: OpenCache says %v; expected ErrUnsafe", mode, err)
		}
	}
}

func TestJobsAndNamesDoNotLeaveTheirDirectory(t *testing.T) {
	c := newCache(t, cacheDir(t))
	for _, job := range []string{"", "..", "../x", "a/b", "job\x00", strings.Repeat("j", 40)} {
		if p, err := c.Place(job, 0); err == nil && filepath.Dir(p.Dir()) != filepath.Join(c.path, jobsDir) {
			t.Errorf("the directory of job %q is %s", job, p.Dir())
		}
	}
	m := manifestOf(t, script, "prog")
	content := store(t, c, m, script)
	place, err := c.Place("job-1a2b3c4d", 0)
	if err != nil {
		t.Fatal(err)
	}
	m.Name = "../../prog"
	if _, err := place.Put(m, content); !errors.Is(err, ErrManifest) {
		t.Errorf("Put says %v; expected ErrManifest", err)
	}
	m.Name = "prog"
	if err := os.Symlink("/dev/null", filepath.Join(place.Dir(), "prog")); err != nil {
		t.Fatal(err)
	}
	if path, err := place.Put(m, content); err == nil {
		t.Errorf("Put follows a link at %s", path)
	}
}

func TestTheOldestEntriesMakeRoom(t *testing.T) {
	c, err := openCache(cacheDir(t), 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	files := make([]*Manifest, 4)
	for i := range files {
		content := bytes.Repeat([]byte{byte('a' + i)}, 300)
		files[i] = manifestOf(t, content, "prog")
		store(t, c, files[i], content)
		old := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := c.root.Chtimes(entry(files[i]), old, old); err != nil {
			t.Fatal(err)
		}
		if i == 2 && !c.has(t, files[0]) { // has makes the file the latest
			t.Error("the first file has gone too early")
		}
	}
	for i, want := range []bool{true, false, true, true} {
		if got := c.has(t, files[i]); got != want {
			t.Errorf("file %d is there: %v; expected %v", i, got, want)
		}
	}
	big := manifestOf(t, make([]byte, 1001), "prog")
	if _, err := c.Draft(big); err == nil || !strings.Contains(err.Error(), "1001 bytes; expected at most the 1000") {
		t.Errorf("a file that is longer than the cache: %v", err)
	}
}

func TestWhatDeadKeepersLeaveIsRemovedAndWhatLivingOnesHaveStays(t *testing.T) {
	dir := cacheDir(t)
	c := newCache(t, dir)
	live, err := c.Place("job-live", 0)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := c.Place("job-dead", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.lock.Close(); err != nil { // as the kernel does when its process dies
		t.Fatal(err)
	}
	old := filepath.Join(dir, draftsDir, "old")
	past := time.Now().Add(-2 * limits.StagedDraftAge)
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.Chtimes(old, past, past)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Draft(manifestOf(t, script, "prog")); err != nil {
		t.Fatal(err)
	}
	again := newCache(t, dir)
	if _, err := os.Stat(live.Dir()); err != nil {
		t.Errorf("the directory of the living job: %v", err)
	}
	if _, err := os.Stat(dead.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the dead job: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, draftsDir)); len(left) != 1 {
		t.Errorf("drafts: %v, %v; expected the new one only", left, err)
	}
	if _, err := again.Place("job-live", 0); err == nil || !strings.Contains(err.Error(), "another process has it") {
		t.Errorf("a second keeper gets the directory of a job: %v", err)
	}
}

func TestTheDefaultDirectoryIsTheUsersOwn(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/somewhere")
	if d := DefaultDir(); d != "/somewhere/weft/stage" {
		t.Errorf("with XDG_CACHE_HOME=/somewhere it is %s", d)
	}
	t.Setenv("XDG_CACHE_HOME", "relative")
	if d := DefaultDir(); !filepath.IsAbs(d) || strings.Contains(d, "relative") {
		t.Errorf("with a relative XDG_CACHE_HOME it is %s", d)
	}
}

func TestAPlacedCopyHasTheModeOfItsManifest(t *testing.T) {
	c := newCache(t, cacheDir(t))
	m := manifestOf(t, script, "data")
	m.Mode = ModeData
	content := store(t, c, m, script)
	place, err := c.Place("job-1a2b3c4d", 0)
	if err != nil {
		t.Fatal(err)
	}
	path, err := place.Put(m, content)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != ModeData {
		t.Errorf("it has %v, %v; expected mode 0400", st, err)
	}
	if b, err := io.ReadAll(io.NewSectionReader(content, 0, 100)); !bytes.Equal(b, script) {
		t.Errorf("the content reads %q, %v", b, err)
	}
}
