package vni

// A message's tag is one word: a port of its two processes, and the tag within the port. So
// libraries that do not know each other can share a process, and a receive of any tag takes only
// messages to its own port.
//
//	63       48 47                             0
//	port        tag
const (
	PortShift = 48
	TagMask   = 1<<PortShift - 1
	PortMask  = ^uint64(TagMask)
)

// LibraryPorts is the first port of the libraries that come with Weft. The last is 0xffff.
const LibraryPorts = 0xff00

// Tags is the set of tags that a receive takes: one, or all of a port (QNIX-20).
type Tags struct {
	tag  uint64
	mask uint64 // the bits that must equal those of tag
}

// OneTag returns the set of one tag of one port.
func OneTag(tag uint64) Tags { return Tags{tag, ^uint64(0)} }

// TagsOf returns the set of one tag, or of all tags of its port.
func TagsOf(tag uint64, anyTag bool) Tags {
	if anyTag {
		return Tags{tag & PortMask, PortMask}
	}
	return OneTag(tag)
}

// Take reports whether a message with a tag is taken. Every receive uses this rule, whichever way
// its message comes.
func (t Tags) Take(tag uint64) bool { return (tag^t.tag)&t.mask == 0 }

// Any reports whether all tags of the port are taken.
func (t Tags) Any() bool { return t.mask == PortMask }

// Tag returns the tag, or the port alone if all of its tags are taken.
func (t Tags) Tag() uint64 { return t.tag }
