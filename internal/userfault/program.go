package userfault

// Mapping is memory of this process of which a pager of another process brings what is missing.
type Mapping struct {
	mem  []byte
	stop func() error
}

// Bytes is the memory. It lies outside of Go's heap: nothing in it may point into that.
func (m *Mapping) Bytes() []byte { return m.mem }

// Close ends the memory, and what it had. No goroutine may use it any more.
func (m *Mapping) Close() error {
	m.mem = nil
	return m.stop()
}
