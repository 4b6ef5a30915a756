package paging

// none means no page, or no buffer.
const none int32 = -1

// links are a page's neighbours in its list. A page is in one list at a time.
type links struct {
	prev, next int32
}

// list is a first-in first-out list of pages. Pages may also leave from the middle.
type list struct {
	pages       []page
	first, last int32
	len         int
}

func newList(pages []page) list { return list{pages: pages, first: none, last: none} }

func (l *list) push(n int32) {
	l.pages[n].links = links{l.last, none}
	if l.last == none {
		l.first = n
	} else {
		l.pages[l.last].next = n
	}
	l.last = n
	l.len++
}

func (l *list) remove(n int32) {
	p := &l.pages[n]
	if p.prev == none {
		l.first = p.next
	} else {
		l.pages[p.prev].next = p.next
	}
	if p.next == none {
		l.last = p.prev
	} else {
		l.pages[p.next].prev = p.prev
	}
	l.len--
}
