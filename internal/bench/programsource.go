package bench

import (
	"fmt"
	"strings"

	"github.com/weftnet/weft/pdl"
	"github.com/weftnet/weft/program"
)

// The programs of the exchanges. The client's NIC has ping, the server's has pong.
//
//	mcp2mcp      ping ─────────────────────────────► pong, which returns the message
//	getdeliver   segment ─GET─► ping ──────────────► pong ─DELIVER─► segment ─GET─► pong ──►
//	             ping ─DELIVER─► segment
//	app2app      process: "go" ─► ping, as above ──► pong ─DELIVER, SET FLAG─► process: "go" ─►
//	             pong ─GET─► …
const (
	pingProgram program.ID = 416
	pongProgram program.ID = 415

	// of both NICs; outgoing data begins at 0, incoming data at its second half
	programSegment = 1
	programFlag    = 256 // flag 0 of it, by its number in programs

	triggerGo       = 1  // a process starts an exchange, or the second half of one
	triggerQuestion = 12 // ping to pong
	triggerAnswer   = 10 // pong to ping
	triggerTook     = 3  // ping to its process: the durations of the exchanges, in ns

	mostExchanges = 100 // that ping makes by itself
)

// pingSource returns the program in the client's NIC. A message for triggerGo holds the id of
// the server's NIC. If ping makes exchanges by itself, the message also holds the number of the
// process that gets the durations, and the number of exchanges.
func pingSource(series string, size int) string {
	get, deliver, tell := "", "", ""
	if series != SeriesMCP2MCP {
		get = "GET data[0] OFFSET 0 FROM segment LEN size;"
		deliver = "DELIVER PACKET[0] OFFSET half INTO segment LEN PACKETLEN;"
	}
	send := get + " SEND data[0] LEN size AS question TO pong AT peer"
	tell = `took[n] = CLOCK - sent;
		n = n + 1;
		IF n < all THEN BEGIN sent = CLOCK; ` + send + `; AWAIT END;
		SEND took[0] LEN n * 8 AS told TO process`
	begin := "process = PACKET[1]; all = PACKET[2]; n = 0; sent = CLOCK; "
	vars := "process, all, n, sent, took[most], "
	if series == SeriesApp2App {
		begin, vars, tell = "", "", "SET FLAG turn"
	}
	return fmt.Sprintf(`PROGRAM ping: %s
		VAR peer, %s data[words];
		TRIGGERS go, answer;
		BEGIN END;
		MESSAGE go: BEGIN peer = PACKET[0]; %s %s END;
		MESSAGE answer: BEGIN %s %s END;
		END;`, constants(size), vars, begin, send, deliver, tell)
}

// pongSource returns the program in the server's NIC.
func pongSource(series string, size int) string {
	const back = " AS answer TO ping AT "
	question, vars, more, triggers := "SEND PACKET[0] LEN PACKETLEN"+back+"SOURCE", "", "", "question"
	switch series {
	case SeriesGetDeliver:
		vars = "VAR data[words];"
		question = `DELIVER PACKET[0] OFFSET 0 INTO segment LEN PACKETLEN;
			GET data[0] OFFSET 0 FROM segment LEN size;
			SEND data[0] LEN size` + back + "SOURCE"
	case SeriesApp2App:
		vars, triggers = "VAR peer, data[words];", "question, go"
		question = "peer = SOURCE; DELIVER PACKET[0] OFFSET half INTO segment LEN PACKETLEN; SET FLAG turn"
		more = "MESSAGE go: BEGIN GET data[0] OFFSET 0 FROM segment LEN size; " +
			"SEND data[0] LEN size" + back + "peer END;"
	}
	return fmt.Sprintf("PROGRAM pong: %s %s TRIGGERS %s; BEGIN END; MESSAGE question: BEGIN %s END; %s END;",
		constants(size), vars, triggers, question, more)
}

// constants declares the constants that both programs use.
func constants(size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CONST size = %d, words = %d, half = %d, most = %d, ",
		size, max(1, (size+7)/8), segmentHalf(size), mostExchanges)
	fmt.Fprintf(&b, "segment = %d, turn = %d, go = %d, question = %d, answer = %d, told = %d, ping = %d, pong = %d;",
		programSegment, programFlag, triggerGo, triggerQuestion, triggerAnswer, triggerTook, pingProgram, pongProgram)
	return b.String()
}

// segmentHalf returns the offset of the half of a segment that takes incoming messages of a
// size.
func segmentHalf(size int) int { return max(8, (size+7)&^7) }

// compiled returns the module of a source.
func compiled(source string) ([]byte, error) {
	m, err := pdl.Compile("bench.pdl", []byte(source))
	if err != nil {
		return nil, err
	}
	return m.Encode(), nil
}
