package paging

// Kind is the kind of an action.
type Kind uint8

const (
	Load  Kind = iota + 1 // read the page from the device into the buffer, then call Loaded
	Store                 // write the page from the buffer to the device, then call Stored
	Fill                  // put the page into the region from the buffer
	Zero                  // put a page of zeros there
	// Take copies the page out of the region into the buffer, if there is one, and removes the
	// page. If the page is writable, it is protected first.
	Take
	Allow  // let the page be written
	Wake   // make the threads that wait for the page retry
	Poison // make every access to the page fail, now and later
)

// Action is an action on a page. Loads and stores may take time and may end in any order. The
// caller performs all other actions in their order before it calls the table again. A thread that
// waits for the page continues after Fill, Zero, Take, Allow, Wake and Poison.
type Action struct {
	Kind     Kind
	Page     int
	Buf      int32 // index, from 0 to Buffers-1; negative: none
	Writable bool  // Fill, Zero: the page is not protected; Take: it was not protected
	// Here is set for Wake if the page was reported missing and the actions so far have put it
	// into the region.
	Here bool
}

func (t *Table) act(a Action) { t.do = append(t.do, a) }

// Actions appends the actions since its last call to l and returns the result.
func (t *Table) Actions(l []Action) []Action {
	l = append(l, t.do...)
	t.do = t.do[:0]
	return l
}
