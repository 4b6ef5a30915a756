package trust

import (
	"fmt"
	"io"
)

// Secrets are never printed: no verb of fmt except %p, no log and no JSON shows one. Only the
// methods named Text return them. go vet rejects %p for a value that is no pointer.
//
// fmt calls no method of an unexported field. A struct that keeps a secret in one needs its own
// Format, as Fabric has.

const (
	hiddenFabric  = "(a fabric key)"
	hiddenPrivate = "(a static key)"
	hiddenCA      = "(an authority's key)"
)

// String hides the key.
func (FabricKey) String() string { return hiddenFabric }

// Format hides the key from every verb.
func (FabricKey) Format(s fmt.State, _ rune) { hide(s, hiddenFabric) }

// MarshalText hides the key from JSON and logs.
func (FabricKey) MarshalText() ([]byte, error) { return []byte(hiddenFabric), nil }

// String hides the keys.
func (Fabric) String() string { return hiddenFabric }

// Format hides the keys from every verb.
func (Fabric) Format(s fmt.State, _ rune) { hide(s, hiddenFabric) }

// String hides the key.
func (PrivateKey) String() string { return hiddenPrivate }

// Format hides the key from every verb.
func (PrivateKey) Format(s fmt.State, _ rune) { hide(s, hiddenPrivate) }

// MarshalText hides the key from JSON and logs.
func (PrivateKey) MarshalText() ([]byte, error) { return []byte(hiddenPrivate), nil }

// String hides the key.
func (CAKey) String() string { return hiddenCA }

// Format hides the key from every verb.
func (CAKey) Format(s fmt.State, _ rune) { hide(s, hiddenCA) }

// MarshalText hides the key from JSON and logs.
func (CAKey) MarshalText() ([]byte, error) { return []byte(hiddenCA), nil }

// hide writes text. fmt.State returns no error of a writer.
func hide(s fmt.State, text string) { io.WriteString(s, text) }
