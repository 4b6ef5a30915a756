package main

import (
	"math/bits"
	"testing"

	"github.com/weftnet/weft/internal/picture"
	"github.com/weftnet/weft/parallel"
)

// The picture shows both matrices and their product.
func TestPictureOfMatmul(t *testing.T) {
	m, err := parallel.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	product, err := multiply(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	const cell, x, y, step = 2.5, 20, 96, 270
	d := picture.New(820, 410, "Matrix multiply: the table of greatest common divisors", "examples/matmul",
		"Three matrices of 96 rows: the divisors, the totients, and their product, the greatest common divisors.")
	level := func(v float64) int { // one more level for each power of two
		return min(bits.Len(uint(v)), picture.Levels-1)
	}
	var a, b, c []int
	for i := 1; i <= n; i++ {
		for j := 1; j <= n; j++ {
			a = append(a, 6*int(left(i, j)))
			b = append(b, level(right(i, j)))
			c = append(c, level(product[(i-1)*n+j-1]-1))
		}
	}
	d.Text("small", x, y-12, "left: 1 if k divides i, else 0")
	d.Grid(x, y, cell, n, a)
	d.Text("small", x+step, y-12, "right: totient of k if k divides j, else 0")
	d.Grid(x+step, y, cell, n, b)
	d.Text("small", x+2*step, y-12, "left × right = gcd(i, j)")
	d.Grid(x+2*step, y, cell, n, c)
	d.Text("small mid", x+n*cell+15, y+n*cell/2, "×")
	d.Text("small mid", x+step+n*cell+15, y+n*cell/2, "=")
	d.Key(x+step, y+n*cell+18, 24, "0", "1", "2", "4", "8", "16", "32", "64")
	d.Key(x+2*step, y+n*cell+18, 24, "1", "2", "3", "5", "9", "17", "33", "65")
	d.Text("small end", x+step-12, y+n*cell+34, "each color from")
	picture.Check(t, d, "matmul.svg")
}
