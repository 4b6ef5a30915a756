package fabric

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/weftnet/weft/internal/trust"
)

// ErrThere is the error of Init, Join and Rotate if they would replace an existing file.
var ErrThere = errors.New("there is a key already")

// Init creates a file with a new fabric key.
func Init(path string) (trust.FabricKey, error) {
	k, err := trust.NewFabricKey(rand.Reader)
	if err != nil {
		return k, err
	}
	made, err := CreateOnce(path, k.Text())
	switch {
	case err != nil:
		return k, fmt.Errorf("make a fabric key: %w", err)
	case !made:
		return k, fmt.Errorf("%s: %w; weft fabric show prints it, weft fabric rotate replaces it", path, ErrThere)
	}
	return k, nil
}

// Join writes the key into the file at path. It keeps a file with another key unless replaceOther
// is set. It returns false if the file already had this key and no other.
func Join(path string, k trust.FabricKey, replaceOther bool) (changed bool, err error) {
	made, err := CreateOnce(path, k.Text())
	if err != nil {
		return false, fmt.Errorf("keep the fabric key: %w", err)
	}
	if made {
		return true, nil
	}
	old, err := readKeys(path)
	switch {
	case err == nil && len(old) == 1 && old[0] == k:
		return false, nil
	case !replaceOther && err == nil:
		return false, fmt.Errorf("%s: %w, %s, and the given one is %s; --replace replaces it",
			path, ErrThere, old[0].Fingerprint(), k.Fingerprint())
	case !replaceOther:
		return false, fmt.Errorf("%w; --replace replaces the file", err)
	}
	if err := Replace(path, k.Text()); err != nil {
		return false, fmt.Errorf("keep the fabric key: %w", err)
	}
	return true, nil
}

// Rotate creates a file with a new key next to the one at path, and returns its path.
func Rotate(path string) (newPath string, k trust.FabricKey, err error) {
	if _, err := readKeys(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; there is nothing to rotate: weft fabric init makes a key", err)
		}
		return "", k, err
	}
	newPath = path + ".new"
	k, err = Init(newPath)
	if errors.Is(err, ErrThere) {
		err = fmt.Errorf("%s: %w: a rotation has begun; end it, or remove the file", newPath, ErrThere)
	}
	return newPath, k, err
}
