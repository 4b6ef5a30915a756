package contest

// Elsewhere returns the figures of contestants that cannot be installed here. They were measured
// on a similar machine at another time, so they show only the order of magnitude.
func Elsewhere() []Row {
	const aeron = "Aeron 1.53"
	head := func(ground string, roundTrip, rate, bandwidth float64) []Row {
		return []Row{
			{Contestant: aeron, Ground: ground, Measure: Latency, Size: SmallSize, Value: roundTrip},
			{Contestant: aeron, Ground: ground, Measure: Rate, Size: SmallSize, Value: rate},
			{Contestant: aeron, Ground: ground, Measure: Bandwidth, Size: LargeSize, Value: bandwidth},
		}
	}
	// The C media driver runs within the clients' loop; rates by batched publishing.
	rows := append(head(Host, 690, 19.8e6, 4.5e9), head(Veth, 9750, 1.9e6, 0.33e9)...)
	// One driver for both processes, on two cores; it yields when idle.
	rows = append(rows, Row{Contestant: aeron + ", drivers", Ground: Veth, Measure: Latency, Size: SmallSize,
		Value: 19e3})
	for _, l := range []struct{ loss, goodput, p99 float64 }{{0, 0.304e9, 38e3}, {0.001, 0.287e9, 0},
		{0.01, 0.220e9, 100e6}, {0.05, 0.042e9, 0}} {
		rows = append(rows, Row{Contestant: aeron, Ground: Loss, Loss: l.loss, Measure: Bandwidth, Size: LargeSize,
			Value: l.goodput})
		if l.p99 > 0 {
			rows = append(rows, Row{Contestant: aeron, Ground: Loss, Loss: l.loss, Measure: Latency, Size: SmallSize,
				P99: l.p99})
		}
	}
	return rows
}
