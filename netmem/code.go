package netmem

import "fmt"

// Code says how the pages of a volume outlive their servers: each is cut into Data shards, to which Parity others are computed, and any
// Data of them all are enough to read it. They are on as many servers. With one of Data, each is the page itself: a copy.
type Code struct {
	Data   int `json:"data"`
	Parity int `json:"parity"`
}

// String is how many copies there are, or how many shards: "4+2".
func (c Code) String() string {
	switch {
	case c.Data > 1:
		return fmt.Sprintf("%d+%d", c.Data, c.Parity)
	case c.Parity == 0:
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", 1+c.Parity)
}

// servers is on how many a page is.
func (c Code) servers() int { return c.Data + c.Parity }
