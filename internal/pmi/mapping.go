package pmi

import (
	"fmt"
	"strconv"
	"strings"
)

// reserved is the prefix of the launcher's keys. mappingKey is the key that tells which ranks
// share a host.
const (
	reserved   = "PMI_"
	mappingKey = "PMI_process_mapping"
)

// Mapping returns the value of PMI_process_mapping for ranks on hosts: hosts[i] is the number of
// the host of rank i. It is a list of blocks (host, hosts, ranks on each): (vector,(0,2,4)) means
// ranks 0 to 3 on host 0 and ranks 4 to 7 on host 1. Mapping returns the empty string, which
// means "unknown", if the list is longer than a value can be.
func Mapping(hosts []int) string {
	type block struct{ first, count, each int }
	var blocks []block
	for i := 0; i < len(hosts); {
		each := 1
		for i+each < len(hosts) && hosts[i+each] == hosts[i] {
			each++
		}
		if n := len(blocks); n > 0 && blocks[n-1].each == each && blocks[n-1].first+blocks[n-1].count == hosts[i] {
			blocks[n-1].count++
		} else {
			blocks = append(blocks, block{hosts[i], 1, each})
		}
		i += each
	}
	var b strings.Builder
	b.WriteString("(vector")
	for _, k := range blocks {
		fmt.Fprintf(&b, ",(%d,%d,%d)", k.first, k.count, k.each)
	}
	b.WriteString(")")
	if b.Len() >= ValueBytes || len(blocks) == 0 {
		return ""
	}
	return b.String()
}

// OneHost reports whether a process mapping says that all ranks are on one host. For an unknown
// or malformed mapping it returns false.
func OneHost(mapping string) bool {
	list, ok := strings.CutPrefix(mapping, "(vector,(")
	list, end := strings.CutSuffix(list, "))")
	if !ok || !end {
		return false
	}
	host := ""
	for b := range strings.SplitSeq(list, "),(") {
		f := strings.Split(b, ",")
		if len(f) != 3 || f[1] != "1" || host != "" && f[0] != host {
			return false
		}
		for _, number := range f {
			if n, err := strconv.Atoi(number); err != nil || n < 0 {
				return false
			}
		}
		host = f[0]
	}
	return host != ""
}
