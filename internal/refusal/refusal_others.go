//go:build !linux

package refusal

// Of says which call the system has refused.
func Of(call string, _ int64, err error) error {
	if err == nil {
		return nil
	}
	return &Refusal{Call: call, Err: err}
}

// Memory checks nothing: only Linux tells what is there.
func Memory(int64) error { return nil }

// Commit does nothing.
func Commit([]byte) error { return nil }

// Limit reports no limit.
func Limit() (bytes int64, name string, limited bool) { return 0, "", false }
