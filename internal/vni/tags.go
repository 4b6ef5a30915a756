package vni

// A message's tag is one word: a port of its two processes, and what they call it there. So libraries that know nothing of each other
// share a process, and a receive of any tag takes what goes to its own port alone.
//
//	63       48 47                             0
//	port        tag
const (
	PortShift = 48
	TagMask   = 1<<PortShift - 1
	PortMask  = ^uint64(TagMask)
)

// LibraryPorts is the first of the ports of libraries that come with Weft. They go to the last, 0xffff.
const LibraryPorts = 0xff00

// Tags is which tags a receive takes: one, or all of a port (QNIX-20).
type Tags struct {
	tag  uint64
	mask uint64 // the bits that must be those of tag
}

// OneTag is one tag of one port.
func OneTag(tag uint64) Tags { return Tags{tag, ^uint64(0)} }

// TagsOf is one tag, or all of its port.
func TagsOf(tag uint64, anyTag bool) Tags {
	if anyTag {
		return Tags{tag & PortMask, PortMask}
	}
	return OneTag(tag)
}

// Take reports whether a message with a tag is taken. It is the rule for every receive, however its message comes.
func (t Tags) Take(tag uint64) bool { return (tag^t.tag)&t.mask == 0 }

// Any reports whether all tags of the port are taken.
func (t Tags) Any() bool { return t.mask == PortMask }

// Tag is the tag, or the port alone if all of its tags are taken.
func (t Tags) Tag() uint64 { return t.tag }
