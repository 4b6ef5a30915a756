// Package parallel runs data-parallel programs on the ranks of a job, in the terms of the language
// C*. A result has the same bits on any number of ranks.
//
// A [Shape] is a set of positions, such as the points of a grid. A [Var] has one element at each
// position. Every rank runs the same program, and holds the elements of its part of the positions:
//
//	m, err := parallel.Init(ctx)              // the ranks that weft run has started
//	s, err := parallel.NewShape(ctx, m, parallel.Axis{Len: 1000}, parallel.Axis{Len: 1000})
//	v, err := parallel.New[float64](s)
//	c := parallel.With(ctx, s)
//	parallel.Rows(c, v, func(pos []int, run []float64) { … })
//	sum, err := parallel.Reduce(c, v, parallel.Sum[float64]())
//
// # Operations
//
// All operations that take a [Ctx] and return an error are collective, except Where: every rank
// calls the same operations in the same order, with matching arguments. [Rows], [Map] and [Pcoord]
// do not communicate. They work on the elements of this rank, in loops over plain slices.
//
//	C*                         here
//	shape [2][32768]S          NewShape
//	with (S)                   With
//	where … else               Ctx.Where
//	everywhere                 Ctx.Everywhere
//	pcoord                     Pcoord
//	+= of a parallel variable  Reduce, ReduceAxis
//	scan, spread, rank         Scan, Spread, Rank, Sort
//	to_grid, to_torus          Shift, StartHalo, Stencil
//	[j][i]dest = source        Transpose
//	[index]dest = source       Send
//	dest = [index]source       Get
//
// [Transpose] exchanges the two coordinates of a matrix, which C* did by a general send.
//
// # Errors
//
// If an operation fails at one rank, it fails at every rank, and so do all later operations of the
// machine. A rank that has already returned from the operation gets the error from its next one. If
// ranks call different operations, the error names two of these ranks and both operations; see
// [MismatchError]. If a rank ends, the operations fail with [ErrRankGone]. After [ErrBusy] and
// [ErrNoCheckpoint], the machine stays usable.
//
// # Checkpoints
//
// [Save] and [Load] keep variables in a [Store]: a directory ([Dir]), or network memory, by a shelf
// of package netmem. A checkpoint loads on any number of ranks.
//
// # Same bits
//
// Reductions and scans combine the elements of fixed blocks in a fixed order, which depends on the
// shape alone. So the bits do not depend on the number of ranks, or on the machine's state after
// [Machine.Shrink]. They may differ between processor architectures, because some fuse
// multiplication and addition.
package parallel
