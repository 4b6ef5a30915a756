package userfault

// Mapping is memory of this process. A pager in another process brings the missing pages.
type Mapping struct {
	mem  []byte
	stop func() error
}

// Bytes returns the memory. The memory lies outside Go's heap, so it must not hold Go pointers.
func (m *Mapping) Bytes() []byte { return m.mem }

// Close ends the memory and discards its content. No goroutine may use the memory any more.
func (m *Mapping) Close() error {
	m.mem = nil
	return m.stop()
}
