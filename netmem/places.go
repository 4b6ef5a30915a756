package netmem

import (
	"cmp"
	"slices"

	"github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/hsn"
)

// classes is the number of sizes of places in a frame: a whole page of the server, a half, and
// smaller ones for compressed pages and shards. Data of at most half a frame gets at most half as
// much room again as it needs. More classes would leave more frames with free places of unused
// sizes.
const classes = 12

// places is the number of places in a frame of each class.
var places = [classes]int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32}

// placeBytes returns the size of the places of a class.
func placeBytes(class int) int { return hsn.MaxPage / places[class] }

// classOf returns the class with the smallest places that hold n bytes. n is at most a whole page.
func classOf(n int) int {
	class := classes - 1
	for placeBytes(class) < n {
		class--
	}
	return class
}

// sparse is the number of frames of a class that gather examines. The frames with the fewest pages
// among them are cheap to move.
const sparse = 64

// gather frees a frame by moving its pages into free places of other frames, and reports whether it
// could. When page sizes change, frames with places of an unused size would otherwise keep room
// from others. It copies at most one frame.
func (s *store) gather() bool {
	for class, open := range s.open {
		var least *frame
		for _, f := range open[:min(sparse, len(open))] {
			if least == nil || f.held < least.held {
				least = f
			}
		}
		if least == nil || s.loose[class]-least.loose < least.held {
			continue
		}
		s.loose[class] -= least.loose // it takes no pages itself
		least.loose = 0
		list(&s.open[class], least, false, func(f *frame) *int { return &f.inOpen })
		for i, p := range least.places {
			if p == nil {
				continue
			}
			l, data := s.open[class], p.data
			s.place(p, l[len(l)-1], data)
			least.places[i] = nil
			least.held--
		}
		s.settle(least)
		return true
	}
	return false
}

// VolumeUse holds the room that one volume of one client uses on a server.
type VolumeUse struct {
	Client weft.Name `json:"client"`      // name of the client's process
	Volume uint64    `json:"volume"`      // value of ClientConfig.Volume
	Code   Code      `json:"code"`        // number of copies or shards of the page written last
	Pages  int       `json:"pages"`       // pages or shards that the server stores
	Plain  int64     `json:"plain_bytes"` // bytes of these pages before compression
	Kept   int64     `json:"kept_bytes"`  // bytes of these pages after compression
	Used   int64     `json:"used_bytes"`  // bytes of memory and spill file that these pages occupy
}

// largest returns the n volumes of clients that use the most room.
func (s *store) largest(n int) []VolumeUse {
	var l []VolumeUse
	for _, t := range s.tenants {
		if t.owner.App == shelfApp {
			continue
		}
		for _, u := range t.uses {
			l = append(l, *u)
		}
	}
	slices.SortFunc(l, func(a, b VolumeUse) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used),
			cmp.Compare(a.Client.String(), b.Client.String()), cmp.Compare(a.Volume, b.Volume))
	})
	return l[:min(n, len(l))]
}

// plain returns the length of the bytes before compression.
func (s *shape) plain() int {
	return (int(s.size) + s.code.Data - 1) / max(s.code.Data, 1)
}
