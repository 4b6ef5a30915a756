package fabric_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/secret"
	"github.com/weftnet/weft/internal/trust"
)

// asLoader is an environment variable. It makes the test binary load or create a fabric key and a
// static key, and print their public names.
const asLoader = "WEFT_TEST_LOADS_KEYS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asLoader); dir != "" {
		keys, _, note, err := fabric.LoadOrMake(filepath.Join(dir, "weft", fabric.FileName))
		static, err2 := fabric.StaticKey(dir)
		if err != nil || err2 != nil || note != "" {
			fmt.Fprintln(os.Stderr, err, err2, note)
			os.Exit(1)
		}
		fmt.Println(keys[0].Fingerprint(), static.Public())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func key(t *testing.T, seed uint64) trust.FabricKey {
	t.Helper()
	k, err := trust.NewFabricKey(secret.Seeded(seed).Reader(secret.StaticKey))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// write creates a file of mode 0600 in a new directory.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fabric.key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asUser sets $HOME and the configuration directory for a test.
func asUser(t *testing.T, home string) {
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv(fabric.FileVariable, "")
}

func TestTheSourceOfTheKeyIsThePathThenTheVariable(t *testing.T) {
	a, b := write(t, key(t, 1).Text()), write(t, key(t, 2).Text()+"\n"+key(t, 1).Text()+"\n")
	asUser(t, t.TempDir())
	t.Setenv(fabric.FileVariable, b)
	for _, c := range []struct {
		explicit, source string
		first            trust.FabricKey
		keys             int
	}{{a, a, key(t, 1), 1}, {"", b, key(t, 2), 2}} {
		keys, source, note, err := fabric.Load(c.explicit)
		if err != nil || note != "" || source != c.source || len(keys) != c.keys || keys[0] != c.first {
			t.Errorf("%q: %d keys of %s, %q, %v", c.explicit, len(keys), source, note, err)
		}
	}
}

func TestTheDefaultFileIsMadeAtFirstUseAndReadAfterwards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weft", fabric.FileName)
	first, source, note, err := fabric.LoadOrMake(path)
	if err != nil || note != "" || source != path || len(first) != 1 {
		t.Fatalf("%d keys of %s, %q, %v", len(first), source, note, err)
	}
	again, _, _, err := fabric.LoadOrMake(path)
	if err != nil || again[0] != first[0] {
		t.Errorf("another key, %v", err)
	}
	for path, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, st.Mode().Perm(), err, want)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v; want the key alone", files, err)
	}
}

func TestTheDefaultFileIsByUser(t *testing.T) {
	home := t.TempDir()
	asUser(t, home)
	path, err := fabric.DefaultFile()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if path != "/var/lib/weft/fabric.key" {
			t.Errorf("root's is %s", path)
		}
	} else if !strings.HasPrefix(path, home) || !strings.HasSuffix(path, "/weft/fabric.key") {
		t.Errorf("the user's is %s; want one below %s", path, home)
	}
}

func TestConcurrentFirstUsesAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weft", fabric.FileName)
	found := make([]trust.FabricKey, 64)
	var wg sync.WaitGroup
	for i := range found {
		wg.Go(func() {
			keys, _, note, err := fabric.LoadOrMake(path)
			if err != nil || note != "" {
				t.Errorf("%q, %v", note, err)
				return
			}
			found[i] = keys[0]
		})
	}
	wg.Wait()
	for _, k := range found {
		if k != found[0] {
			t.Fatalf("fabric keys %s and %s", k.Fingerprint(), found[0].Fingerprint())
		}
	}
}

func TestConcurrentFirstUsesOfProcessesAgree(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	said := make([]string, 16)
	var wg sync.WaitGroup
	for i := range said {
		wg.Go(func() {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), asLoader+"="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			said[i] = string(out)
		})
	}
	wg.Wait()
	for _, s := range said {
		if s != said[0] || len(s) < 60 {
			t.Fatalf("%q and %q", s, said[0])
		}
	}
}

func TestAProcessThatCanKeepNoKeyHasOneOfItsOwn(t *testing.T) {
	file := write(t, "no directory")
	one, source, note, err := fabric.LoadOrMake(filepath.Join(file, "weft", fabric.FileName))
	if err != nil || source != fabric.ThisProcess || !strings.Contains(note, "no other process trusts it; set $WEFT_FABRIC_FILE") {
		t.Fatalf("%s, %q, %v", source, note, err)
	}
	two, _, _, err := fabric.LoadOrMake(filepath.Join(file, "elsewhere"))
	if err != nil || one[0] != two[0] {
		t.Errorf("two NICs of one process have different keys: %v", err)
	}
	if os.Geteuid() == 0 {
		return // root's file does not depend on HOME
	}
	asUser(t, "")
	if _, _, note, err := fabric.Load(""); err != nil || !strings.Contains(note, "HOME") {
		t.Errorf("without HOME: %q, %v", note, err)
	}
}

func TestABadFileIsRefusedWithCauseAndCure(t *testing.T) {
	good := key(t, 1).Text()
	mode := func(path string, m os.FileMode) string {
		if err := os.Chmod(path, m); err != nil {
			t.Fatal(err)
		}
		return path
	}
	asUser(t, t.TempDir())
	bad := map[string]string{
		"mode 0640, so other users can use it; expected 0600: run chmod 600": mode(write(t, good), 0o640),
		"mode 0604": mode(write(t, good), 0o604),
		"no such file or directory; make it by weft fabric init --file": filepath.Join(t.TempDir(), "none"),
		"is no regular file":                             t.TempDir(),
		"fabric key: truncated":                          write(t, good[:40]),
		"fabric key: altered":                            write(t, good[:40]+"aaaaa"+good[45:]),
		"fabric key: weak: it has 1 distinct bytes":      write(t, trust.FabricKey{}.Text()),
		"the text is empty":                              write(t, ""),
		"has more than 4096 bytes":                       write(t, strings.Repeat("x", 5000)),
		"keys 1 and 2 of the fabric are the same":        write(t, good+"\n"+good),
		"this is a NIC's static key":                     write(t, trust.PrivateKey(key(t, 1)).Text()),
		"expected one line that begins with weft1-":      write(t, "c2VjcmV0IGtleSBvZiB0aGUgb2xkIGdvc3NpcCwgYmFzZTY0Cg=="),
		"a fabric with 5 keys: expected 1 to 4; remove ": write(t, strings.Join([]string{good, key(t, 2).Text(), key(t, 3).Text(), key(t, 4).Text(), key(t, 5).Text()}, "\n")),
	}
	for want, path := range bad {
		for how, load := range map[string]func() error{
			"path":     func() error { _, _, _, err := fabric.Load(path); return err },
			"variable": func() error { t.Setenv(fabric.FileVariable, path); _, _, _, err := fabric.Load(""); return err },
			"files":    func() error { _, err := fabric.LoadFiles([]string{path}); return err },
		} {
			err := load()
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), good[8:30]) {
				t.Errorf("%s: %v; want %q", how, err, want)
			}
		}
	}
}

func TestABadDefaultFileIsNeverReplaced(t *testing.T) {
	for _, text := range []string{"", "weft1-", trust.FabricKey{}.Text()} {
		path := write(t, text)
		if keys, _, note, err := fabric.LoadOrMake(path); err == nil || note != "" || keys != nil {
			t.Errorf("%q: %d keys, %q, %v", text, len(keys), note, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%q has become %q, %v", text, b, err)
		}
	}
}

func TestADirectoryInWhichOthersWriteIsRefused(t *testing.T) {
	path := write(t, key(t, 1).Text())
	if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := fabric.LoadOrMake(path); err == nil || !strings.Contains(err.Error(), "run chmod 700 "+filepath.Dir(path)) {
		t.Error(err)
	}
}

func TestAFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	path := write(t, key(t, 1).Text())
	if err := os.Chown(path, 4711, -1); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := fabric.Load(path); err == nil || !strings.Contains(err.Error(), "is user 4711's, who could change it") {
		t.Error(err)
	}
}

func TestKeyFilesGiveTheirKeysInOrder(t *testing.T) {
	one, two := write(t, key(t, 1).Text()), write(t, key(t, 2).Text())
	keys, err := fabric.LoadFiles([]string{two, one})
	if err != nil || len(keys) != 2 || keys[0] != key(t, 2) || keys[1] != key(t, 1) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	for want, paths := range map[string][]string{
		"expected 1 to 4":         nil,
		"are the same; name each": {one, two, one},
		"weft fabric init":        {one, one + ".none"},
	} {
		if _, err := fabric.LoadFiles(paths); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", paths, err, want)
		}
	}
}
