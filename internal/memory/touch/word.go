//go:build amd64 || arm64

package touch

// load loads a word. load and store are assembly: under the race detector, package atomic does
// both in the detector's C code, where a fault ends the program.
//
//go:noescape
func load(w *uint32)

// store adds zero to a word, by one atomic operation.
//
//go:noescape
func store(w *uint32)
