package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weftnet/weft/internal/userfault/faulttest"
	"github.com/weftnet/weft/netmem"
)

// asPaged makes this test a program whose memory is network memory. Its value is the number of
// changes by each goroutine.
const asPaged = "WEFT_TEST_PAGED"

// paged runs that program.
func paged(changes string) error {
	n, err := strconv.Atoi(changes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := netmem.Map(ctx, "")
	if err != nil {
		return err
	}
	collections, err := faulttest.Use(m.Bytes(), 2, n)
	if err != nil {
		return err
	}
	fmt.Printf("%d bytes are as they were written, through %d collections\n", len(m.Bytes()), collections)
	return m.Close()
}
