package fabric_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftnet/weft/internal/fabric"
	"github.com/weftnet/weft/internal/trust"
)

func TestInitMakesAKeyOnceOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "fabric.key")
	k, err := fabric.Init(path)
	if err != nil {
		t.Fatal(err)
	}
	if keys, _, _, err := fabric.Load(path); err != nil || keys[0] != k {
		t.Errorf("the file has another key: %v", err)
	}
	if _, err := fabric.Init(path); !errors.Is(err, fabric.ErrThere) {
		t.Errorf("a second time: %v", err)
	}
}

func TestJoinReplacesAnotherKeyOnlyIfTold(t *testing.T) {
	one, two := key(t, 1), key(t, 2)
	path := filepath.Join(t.TempDir(), "weft", "fabric.key")
	for _, c := range []struct {
		what    string
		key     trust.FabricKey
		replace bool
		changed bool
		err     error
		then    trust.FabricKey
	}{
		{"first", one, false, true, nil, one},
		{"again", one, false, false, nil, one},
		{"another", two, false, false, fabric.ErrThere, one},
		{"another, told to", two, true, true, nil, two},
		{"again, told to", two, true, false, nil, two},
	} {
		changed, err := fabric.Join(path, c.key, c.replace)
		if changed != c.changed || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", c.what, changed, err)
		}
		if keys, _, _, err := fabric.Load(path); err != nil || keys[0] != c.then {
			t.Errorf("after %s: %v", c.what, err)
		}
	}
	bad := write(t, "nonsense")
	if _, err := fabric.Join(bad, one, false); err == nil || !strings.Contains(err.Error(), "--replace replaces the file") {
		t.Errorf("over nonsense: %v", err)
	}
	if changed, err := fabric.Join(bad, one, true); err != nil || !changed {
		t.Errorf("over nonsense, told to: %v, %v", changed, err)
	}
	if st, err := os.Stat(bad); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
}

func TestRotateMakesANewKeyBesideTheOld(t *testing.T) {
	path := write(t, key(t, 1).Text())
	newPath, k, err := fabric.Rotate(path)
	if err != nil || newPath != path+".new" {
		t.Fatalf("%s, %v", newPath, err)
	}
	keys, err := fabric.LoadFiles([]string{newPath, path})
	if err != nil || keys[0] != k || keys[1] != key(t, 1) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if _, _, err := fabric.Rotate(path); !errors.Is(err, fabric.ErrThere) || !strings.Contains(err.Error(), "a rotation has begun") {
		t.Errorf("a second time: %v", err)
	}
	if _, _, err := fabric.Rotate(path + ".none"); err == nil || !strings.Contains(err.Error(), "weft fabric init") {
		t.Errorf("nothing to rotate: %v", err)
	}
}
