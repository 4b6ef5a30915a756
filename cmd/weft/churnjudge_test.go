package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	fabric "github.com/weftnet/weft"
	"github.com/weftnet/weft/internal/load"
)

func TestHolesAreMessagesThatWereDeliveredAndHaveNotCome(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed []int
		runs   []churnRun
		epoch  int // of the receiver at the end
		want   []int
	}{
		{"all came", nil, []churnRun{{0, 9, 0}}, 0, nil},
		{"one is missing", nil, []churnRun{{0, 3, 0}, {5, 9, 0}}, 0, []int{4}},
		{"the first", nil, []churnRun{{1, 9, 0}}, 0, []int{0}},
		{"the last", nil, []churnRun{{0, 8, 0}}, 0, []int{9}},
		{"nothing came", []int{0, 1, 2, 3, 4, 5, 6, 7}, nil, 0, []int{8, 9}},
		{"the send of the missing one failed", []int{4}, []churnRun{{0, 3, 0}, {5, 9, 0}}, 0, nil},
		{"a send failed whose message came", []int{4}, []churnRun{{0, 9, 0}}, 0, nil},
		{"the receiver began anew", nil, []churnRun{{0, 3, 0}, {6, 9, 1}}, 1, nil},
		{"one is missing behind a new beginning", nil, []churnRun{{0, 3, 0}, {6, 7, 1}, {9, 9, 1}}, 1, []int{8}},
		{"the receiver began anew at the end", nil, []churnRun{{0, 3, 0}}, 1, nil},
	} {
		from := churnReport{Sent: []int{0, 10}, Failed: [][]int{nil, c.failed}}
		to := churnReport{Runs: [][]churnRun{c.runs, nil}, Epoch: c.epoch}
		if got := holes(&from, &to, 0, 1); !slices.Equal(got, c.want) {
			t.Errorf("%s: holes %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAChurnerFindsWhatIsWrong(t *testing.T) {
	c := &churner{Host: 1, Hosts: 2, Seed: 7}
	message := func(number int) (fabric.Message, []byte) {
		size, seed := c.churnMessage(0, 1, number)
		b := make([]byte, size)
		load.Fill(b, seed)
		return fabric.Message{From: churnName(0), Tag: fabric.Tag(number), Len: size, Full: size}, b
	}
	for _, x := range []struct {
		numbers []int
		change  func(m *fabric.Message, b []byte)
		want    string
	}{
		{[]int{0, 1, 2, 5}, nil, ""},
		{[]int{0, 1, 1}, nil, "message 1 from churn/0: it comes behind message 1: doubled, or out of order"},
		{[]int{0, 2, 1}, nil, "message 1 from churn/0: it comes behind message 2: doubled, or out of order"},
		{[]int{0}, func(m *fabric.Message, b []byte) { b[len(b)-1]++ }, "message 0 from churn/0: byte "},
		{[]int{0}, func(m *fabric.Message, b []byte) { m.Full++ }, "message 0 from churn/0: it has "},
		{[]int{0}, func(m *fabric.Message, b []byte) { m.From = churnName(1) }, "message 0 from churn/1: no such host sends"},
	} {
		c.report = churnReport{Runs: make([][]churnRun, 2)}
		for _, n := range x.numbers {
			m, b := message(n)
			if x.change != nil {
				x.change(&m, b)
			}
			c.took(m, b)
		}
		if got := fmt.Sprint(c.report.Wrong); len(c.report.Wrong) > 1 || !strings.Contains(got, x.want) || x.want == "" && got != "[]" {
			t.Errorf("numbers %d: %s, want %q", x.numbers, got, x.want)
		}
	}
}

func TestAChurnerFindsAnErrorThatNamesNoCause(t *testing.T) {
	c := &churner{report: churnReport{Failures: map[string]int{}}}
	c.failed("send", &fabric.OpError{Op: "send", Peer: churnName(2), Err: fabric.ErrUnreachable}, fabric.ErrUnreachable)
	c.failed("send", &fabric.OpError{Op: "send", Peer: churnName(3), Err: fabric.ErrUnreachable}, fabric.ErrUnreachable)
	if len(c.report.Wrong) > 0 || len(c.report.Failures) != 1 || c.report.Failures["send: weft: send to churn/N: NIC unreachable"] != 2 {
		t.Errorf("%+v", c.report)
	}
	c.failed("send", errors.New("something is wrong"), fabric.ErrUnreachable)
	if len(c.report.Wrong) != 1 || c.report.Wrong[0] != "an error names no cause: send: something is wrong" {
		t.Errorf("%q", c.report.Wrong)
	}
}
