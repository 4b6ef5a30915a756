package paging

// Kind says what is to be done.
type Kind uint8

const (
	Load   Kind = iota + 1 // read the page from the device into the buffer, then call Loaded
	Store                  // write the page from the buffer to the device, then call Stored
	Fill                   // put the page into the region from the buffer
	Zero                   // put it there as zeros
	Take                   // copy the page out of the region into the buffer, if there is one, and remove it; protect it before, if it is writable
	Allow                  // let the page be written
	Wake                   // have the threads that wait for the page try again
	Poison                 // have every access to the page fail, now and later
)

// Action is something to be done with a page. Loads and stores may take their time, and be done in any order. All others are done in
// their order before the table is told anything more. A thread that waits for the page goes on after Fill, Zero, Take, Allow, Wake and Poison.
type Action struct {
	Kind     Kind
	Page     int
	Buf      int32 // from 0 to before Buffers; negative: none
	Writable bool  // Fill, Zero: the page is not protected; Take: it was not
	Here     bool  // Wake: the page was said to be missing, and is in the region by what has been done so far
}

func (t *Table) act(a Action) { t.do = append(t.do, a) }

// Actions appends to l what is to be done since it was called last.
func (t *Table) Actions(l []Action) []Action {
	l = append(l, t.do...)
	t.do = t.do[:0]
	return l
}
