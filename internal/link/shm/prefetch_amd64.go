package shm

// own asks for the cache line of p and the next to write them: to win a line back from the reader's core takes 130 ns,
// in which the writer can do what comes before.
//
//go:noescape
func own(p *uint64)

// fetch asks for the line behind that of p to read it.
//
//go:noescape
func fetch(p *uint64)
