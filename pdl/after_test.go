package pdl_test

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/pdl"
)

func TestAfterIsAWordBehindPassAndANameElsewhere(t *testing.T) {
	const source = `program p: var after; triggers 1; begin after = 5 end; message 1: begin if after > packetlen then pass after after * 2; pass end; end;`
	m, err := pdl.Compile("p.pdl", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if !m.Delays() {
		t.Error("the module does not say that it delays messages")
	}
	text, err := pdl.Format("p.pdl", []byte(source))
	if err != nil || !strings.Contains(string(text), "PASS AFTER after * 2;") || !strings.Contains(string(text), "PASS;\n") {
		t.Errorf("%v:\n%s", err, text)
	}
	without, err := pdl.Compile("p.pdl", []byte(`PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN PASS END; END;`))
	if err != nil || without.Delays() {
		t.Errorf("%v; a module without AFTER says that it delays: %v", err, without.Delays())
	}
}

func TestADelayThatNoGuardMayHaveIsAnErrorInTheSource(t *testing.T) {
	for source, want := range map[string]string{
		`PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN PASS AFTER -1 END; END;`:          "AFTER is -1 ns: expected 0 to 10000000000",
		`PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN PASS AFTER 10000000001 END; END;`: "expected 0 to 10000000000",
		`PROGRAM p: TRIGGERS 1; BEGIN PASS AFTER 1 END; MESSAGE 1: BEGIN END; END;`:           "PASS AFTER",
		`PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN PASS AFTER END; END;`:             "expected an expression",
	} {
		if _, err := pdl.Compile("p.pdl", []byte(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nexpected an error with %q", source, err, want)
		}
	}
}
