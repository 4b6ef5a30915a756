package ctl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAnErrorCrossesTheSocketWithItsCodeAndABoundedText(t *testing.T) {
	for code, sentinel := range codes {
		e := errorFor(fmt.Errorf("%w: more", sentinel))
		if e.Code != code || !errors.Is(e, sentinel) || e.Text != sentinel.Error()+": more" {
			t.Errorf("%v becomes %+v", sentinel, e)
		}
	}
	for _, n := range []int{0, 4096, 4097, 70000} {
		e := errorFor(errors.New(strings.Repeat("x", n)))
		if e.Code != "failed" || len(e.Text) != min(n, 4096) || e.Unwrap() != nil {
			t.Errorf("a text of %d bytes becomes %d, code %s", n, len(e.Text), e.Code)
		}
	}
	if _, err := (&Reply{Names: make([]Name, 2000)}).Encode(); err == nil {
		t.Error("a reply longer than a message is encoded")
	}
	if r, err := DecodeReply([]byte(`{"error":{"code":"in-use","text":"x"}}`)); r != nil || !errors.Is(err, ErrInUse) {
		t.Errorf("a refusal is %+v, %v", r, err)
	}
	if b, err := (&Request{Op: OpStat}).Encode(); err != nil || !strings.Contains(string(b), `"version":1`) {
		t.Errorf("a request is %s, %v", b, err)
	}
	p := Process{Refused: map[string]uint64{"a": 2, "b": 3}}
	if p.Refusals() != 5 {
		t.Errorf("%d refusals; expected 5", p.Refusals())
	}
}
