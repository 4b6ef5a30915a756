//go:build !amd64

package copier

// canStream reports that this processor has only copy.
const canStream = false

func stream(to, from []byte) { copy(to, from) }

func ticks() uint64 { return 0 }
