package nic

// list is a doubly linked list through nodes that lie inside their owners, as QNIX's queues and tables are
// (QNIX-35, QNIX-40, QNIX-44): putting in, taking out and moving to the tail allocate nothing and take one step.
// A node is in one list at a time and knows which.
type list[T any] struct {
	head, tail *node[T]
	n          int
}

type node[T any] struct {
	prev, next *node[T]
	in         *list[T]
	v          *T
}

func (l *list[T]) front() *T {
	if l.head == nil {
		return nil
	}
	return l.head.v
}

func (l *list[T]) pushBack(n *node[T]) {
	if n.in != nil {
		panic("nic: node is in a list already")
	}
	n.in, n.prev, n.next = l, l.tail, nil
	if l.tail != nil {
		l.tail.next = n
	} else {
		l.head = n
	}
	l.tail = n
	l.n++
}

// insertAfter puts n behind at, which is in l; at the head if at is nil.
func (l *list[T]) insertAfter(n, at *node[T]) {
	if at == l.tail {
		l.pushBack(n)
		return
	}
	if n.in != nil {
		panic("nic: node is in a list already")
	}
	n.in, n.prev = l, at
	if at == nil {
		n.next, l.head = l.head, n
	} else {
		n.next, at.next = at.next, n
	}
	n.next.prev = n
	l.n++
}

// remove takes n out of whatever list it is in, if any.
func (n *node[T]) remove() {
	l := n.in
	if l == nil {
		return
	}
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.head = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.tail = n.prev
	}
	n.prev, n.next, n.in = nil, nil, nil
	l.n--
}

// rotate moves the node at the head to the tail: the turn passes on.
func (l *list[T]) rotate() {
	n := l.head
	if n == nil || n == l.tail {
		return
	}
	n.remove()
	l.pushBack(n)
}
