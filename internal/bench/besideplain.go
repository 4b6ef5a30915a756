package bench

import "fmt"

// besidePlain compares the samples of sealed links with those of plain links, round by round.
func (k *Kind) besidePlain(sealed, plain []sample) *BesidePlain {
	var added []int64
	var ratios []float64
	for i := range sealed {
		var s, p Row
		k.fill(&s, sealed[i:i+1])
		k.fill(&p, plain[i:i+1])
		ratios = append(ratios, k.columns[0].of(&s)/k.columns[0].of(&p))
		if k.Trips {
			added = append(added, s.P50-p.P50)
		}
	}
	b := &BesidePlain{PlainRatio: median(ratios)}
	if k.Trips {
		n := median(added)
		b.Added = &n
	}
	return b
}

// columns formats the figures for people. A row of plain links has none.
func (b *BesidePlain) columns() string {
	added := "-"
	if b == nil { // a row of plain links
		return fmt.Sprintf(" %9s %7s", added, "-")
	}
	if b.Added != nil {
		added = fmt.Sprintf("%.2f", micros(*b.Added))
	}
	return fmt.Sprintf(" %9s %7.2f", added, b.PlainRatio)
}
