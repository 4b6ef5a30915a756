//go:build amd64 || arm64

package touch

// load loads a word. It is assembly, as store is: package atomic does both in the race detector's C
// code under that, where a fault ends the program.
//
//go:noescape
func load(w *uint32)

// store adds nothing to a word, by one atomic operation.
//
//go:noescape
func store(w *uint32)
