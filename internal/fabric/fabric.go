// Package fabric keeps the secrets of a fabric in files: fabric keys and static keys. Package trust
// says what they mean.
//
//	explicit path ──► $WEFT_FABRIC_FILE ──► the user's default file ──► a key of this process only
//	└── must be there and good ───────────┘ └── made at first use       └── if no file can be kept
//
// If a file exists and is invalid, the error names the cause and the cure. There is no fallback.
package fabric

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/weftnet/weft/internal/trust"
)

// FileVariable names the environment variable with the path of the fabric key.
const FileVariable = "WEFT_FABRIC_FILE"

// FileName is the name of the fabric key in the directory of a user or of root's daemon.
const FileName = "fabric.key"

// rootsState is the state directory of root's daemon.
const rootsState = "/var/lib/weft"

// ThisProcess is the source that Load returns if no file keeps the key.
const ThisProcess = "this process alone"

// Load returns the fabric keys of the caller. The first one is for calls to other NICs. explicit
// is the path of a file, or empty. source is the path of the file that was read. If the keys
// belong to this process alone, note tells the reason, and the caller logs it. Otherwise note is
// empty.
func Load(explicit string) (keys []trust.FabricKey, source, note string, err error) {
	for _, path := range []string{explicit, os.Getenv(FileVariable)} {
		if path != "" {
			keys, err = readKeys(path)
			return keys, path, "", missing(err, path)
		}
	}
	path, err := DefaultFile()
	if err != nil {
		return ownKey(err)
	}
	return LoadOrMake(path)
}

// LoadOrMake returns the fabric keys in the file at path. If there is no file, it creates one
// with a new key. If it cannot, it returns a key for this process alone, and note tells the
// reason.
func LoadOrMake(path string) (keys []trust.FabricKey, source, note string, err error) {
	if _, err := os.Stat(path); err != nil { // also if the caller may not enter the directory
		k, err := trust.NewFabricKey(rand.Reader)
		if err != nil {
			return nil, "", "", err
		}
		if _, err := CreateOnce(path, k.Text()); err != nil {
			return ownKey(err)
		}
	}
	keys, err = LoadKept(path)
	return keys, path, "", err
}

// LoadKept returns the fabric keys in the file at path. It makes no file.
func LoadKept(path string) ([]trust.FabricKey, error) {
	if err := checkDirectory(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("fabric key: %w", err)
	}
	return readKeys(path)
}

// LoadFiles returns the fabric keys in several files, in the order of the paths: key_files =
// [new, old]. The first key is for calls to other NICs.
func LoadFiles(paths []string) (keys []trust.FabricKey, err error) {
	var errs []error
	for _, path := range paths {
		these, err := readKeys(path)
		errs = append(errs, missing(err, path))
		keys = append(keys, these...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if _, err := trust.NewFabric(keys...); err != nil {
		return nil, fmt.Errorf("fabric keys in %s: %w", strings.Join(paths, ", "), err)
	}
	return keys, nil
}

// DefaultFile returns the path of the caller's fabric key: in root's state directory, or in the
// user's configuration directory.
func DefaultFile() (string, error) {
	if os.Geteuid() == 0 {
		return filepath.Join(rootsState, FileName), nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("the user has no configuration directory: %w", err)
	}
	return filepath.Join(dir, "weft", FileName), nil
}

// readKeys reads a file with one fabric key per line, the newest first.
func readKeys(path string) (keys []trust.FabricKey, err error) {
	text, err := ReadSecret(path, "fabric key")
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		k, err := trust.ParseFabricKey(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		keys = append(keys, k)
	}
	if _, err := trust.NewFabric(keys...); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// missing adds the cure to the error of a named file that does not exist.
func missing(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; make it by weft fabric init --file %s, or name another", err, path)
	}
	return err
}

// drawn is the key of a process that cannot keep a key. All NICs of the process share it.
var drawn = sync.OnceValues(func() (trust.FabricKey, error) { return trust.NewFabricKey(rand.Reader) })

func ownKey(cause error) (keys []trust.FabricKey, source, note string, err error) {
	k, err := drawn()
	if err != nil {
		return nil, "", "", err
	}
	note = fmt.Sprintf("no fabric key is kept (%v): this process has a key of its own, "+
		"and no other process trusts it; set $%s", cause, FileVariable)
	return []trust.FabricKey{k}, ThisProcess, note, nil
}

// noHardLinks reports whether a file system has no hard links.
func noHardLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported)
}
