package nic

// list is a doubly linked list through nodes that lie inside their owners, like QNIX's queues and
// tables (QNIX-35, QNIX-40, QNIX-44). To insert, remove or move to the tail allocates nothing and
// takes one step. A node is in one list at a time and knows which.
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

func (l *list[T]) pushBack(n *node[T]) { l.insertAfter(n, l.tail) }

// insertAfter puts n behind at, which is in l, or at the head if at is nil.
func (l *list[T]) insertAfter(n, at *node[T]) {
	if n.in != nil {
		panic("nic: node is in a list already")
	}
	next := l.head
	if at != nil {
		next, at.next = at.next, n
	} else {
		l.head = n
	}
	if next != nil {
		next.prev = n
	} else {
		l.tail = n
	}
	n.in, n.prev, n.next = l, at, next
	l.n++
}

// all visits the elements, from the head on. The visited one may leave the list.
func (l *list[T]) all(yield func(*T) bool) {
	for n := l.head; n != nil; {
		v := n.v
		if n = n.next; !yield(v) {
			return
		}
	}
}

// remove takes n out of its list, if it is in one.
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
