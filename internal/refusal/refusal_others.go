//go:build !linux

package refusal

// Of returns an error that names the refused call.
func Of(call string, _ int64, err error) error {
	if err == nil {
		return nil
	}
	return &Refusal{Call: call, Err: err}
}

// Memory checks nothing: only Linux tells how much memory is available.
func Memory(int64) error { return nil }

// Commit does nothing.
func Commit([]byte) error { return nil }

// Limit reports no limit.
func Limit() (bytes int64, name string, limited bool) { return 0, "", false }
