package xdp

// fetchAhead asks for the line of a descriptor, and for the first three of a frame, as one who will read them.
//
//go:noescape
func fetchAhead(entry *desc, frame *byte)
