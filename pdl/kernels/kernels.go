// Package kernels holds four loops that are typical of programs in a NIC, each in PDL and in Go:
// they measure the speed of the virtual machine (`weft bench vm`). It also holds two handlers
// that show the cost of dispatching a message.
//
//	sum            an array of 1,024 words
//	checksum       1,500 bytes, two at a time
//	token bucket   1,000 packets
//	hash look-up   999 keys in a table of 1,024
package kernels

// All returns the kernels.
func All() []Kernel { return all }

// A Kernel is a loop in PDL and in Go.
type Kernel struct {
	Name   string
	Source string // its trigger 1 runs the loop once
	Result string // the variable that must equal the result of Native
	Packet []byte // the message that trigger 1 is given
	// Operations is the number of source operations in one activation: operators, assignments,
	// and elements and bytes accessed by an index.
	Operations int
	Native     func(packet []byte) int64
}

// head declares the variables that all kernels use.
const head = "PROGRAM kernel: VAR i, s, h, k, n, now, last, tokens, passed, v[1024]; TRIGGERS 1; BEGIN "

var all = []Kernel{
	{
		Name: "sum",
		Source: head + `WHILE i < 1024 DO BEGIN v[i] = i * 7; i = i + 1 END END;
			MESSAGE 1: BEGIN
				i = 0; s = 0;
				WHILE i < 1024 DO BEGIN s = s + v[i]; i = i + 1 END
			END; END;`,
		Result:     "s",
		Operations: 6147,
		Native:     nativeSum,
	}, {
		Name: "checksum",
		Source: head + `END;
			MESSAGE 1: BEGIN
				i = 0; s = 0;
				WHILE i < PACKETLEN DO BEGIN
					s = s + (PACKETBYTE[i] << 8) + PACKETBYTE[i + 1];
					i = i + 2
				END;
				WHILE s > 0xffff DO s = (s & 0xffff) + (s >> 16);
				s = s ^ 0xffff
			END; END;`,
		Result:     "s",
		Packet:     Packet(1500),
		Operations: 7511,
		Native:     nativeChecksum,
	}, {
		Name: "token bucket",
		Source: head + `END;
			MESSAGE 1: BEGIN
				i = 0; now = 0; last = 0; tokens = 0; passed = 0;
				WHILE i < 1000 DO BEGIN
					now = now + 900 + (i & 255);
					tokens = tokens + (now - last) * 3 / 2;
					last = now;
					IF tokens > 16000 THEN tokens = 16000;
					IF tokens >= 1500 THEN BEGIN tokens = tokens - 1500; passed = passed + 1 END;
					i = i + 1
				END
			END; END;`,
		Result:     "passed",
		Operations: 19147,
		Native:     nativeBucket,
	}, {
		Name: "hash look-up",
		Source: head + `
				i = 1;
				WHILE i < 700 DO BEGIN
					h = (i * 0x9e3779b97f4a7c15) >>> 54;
					WHILE v[h] <> 0 DO h = (h + 1) & 1023;
					v[h] = i; i = i + 1
				END
			END;
			MESSAGE 1: BEGIN
				k = 1; n = 0;
				WHILE k < 1000 DO BEGIN
					h = (k * 0x9e3779b97f4a7c15) >>> 54;
					WHILE v[h] <> k AND v[h] <> 0 DO h = (h + 1) & 1023;
					IF v[h] = k THEN n = n + h;
					k = k + 1
				END
			END; END;`,
		Result:     "n",
		Operations: 14246,
		Native:     nativeLookup,
	},
}

// Packet returns a message of n bytes.
func Packet(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31)
	}
	return b
}

// table is the array of the native forms. It is a package variable, so that the Go compiler
// knows its length.
var table [1024]int64

//go:noinline
func nativeSum([]byte) (s int64) {
	for i := range table {
		s += table[i]
	}
	return s
}

//go:noinline
func nativeChecksum(p []byte) (s int64) {
	for i := 0; i < len(p); i += 2 {
		s += int64(p[i])<<8 + int64(p[i+1])
	}
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return s ^ 0xffff
}

//go:noinline
func nativeBucket([]byte) (passed int64) {
	var now, last, tokens int64
	for i := range int64(1000) {
		now += 900 + i&255
		tokens += (now - last) * 3 / 2
		last = now
		if tokens > 16000 {
			tokens = 16000
		}
		if tokens >= 1500 {
			tokens -= 1500
			passed++
		}
	}
	return passed
}

// golden is the multiplier of the hash: 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

//go:noinline
func nativeLookup([]byte) (n int64) {
	for k := int64(1); k < 1000; k++ {
		h := uint64(k) * golden >> 54
		for table[h] != k && table[h] != 0 {
			h = (h + 1) & 1023
		}
		if table[h] == k {
			n += int64(h)
		}
	}
	return n
}

// Fill fills the table of the native form, which all kernels share. Call it before Native, in
// the same goroutine.
func (k *Kernel) Fill() {
	table = [1024]int64{}
	for i := range table {
		if k.Name == "sum" {
			table[i] = int64(i) * 7
		} else if i > 0 && i < 700 {
			h := uint64(i) * golden >> 54
			for table[h] != 0 {
				h = (h + 1) & 1023
			}
			table[h] = int64(i)
		}
	}
}

// A Handler is a program whose trigger 1 is activated once for each message.
type Handler struct {
	Name   string
	Source string
}

// Handlers returns the handlers.
func Handlers() []Handler { return handlers }

var handlers = []Handler{
	{"empty", "PROGRAM p: TRIGGERS 1; BEGIN END; MESSAGE 1: BEGIN END; END;"},
	{"token bucket", `PROGRAM p: VAR now, last, tokens; TRIGGERS 1; BEGIN END;
		MESSAGE 1: BEGIN
			now = CLOCK;
			tokens = tokens + (now - last) * 3 / 2;
			last = now;
			IF tokens > 16000 THEN tokens = 16000;
			IF tokens < PACKETLEN THEN DROP;
			tokens = tokens - PACKETLEN;
			PASS
		END; END;`},
}
