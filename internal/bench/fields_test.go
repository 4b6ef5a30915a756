package bench

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fill sets a value and its parts to something other than zero, so that no field is left out of
// the JSON.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("fields of type " + v.Type().String() + " are not filled in")
	}
}

// Programs that read the rows use the names of their fields, so no field may be lost or renamed
// unnoticed.
func TestRowsHaveTheFieldsThatWerePublished(t *testing.T) {
	for what, c := range map[string]struct {
		row  any
		want string
	}{
		"latency, rate, bandwidth, datagrams, stream, all in one row": {new(Row), `added_p50_ns bench bytes_per_s bytes_to_message bytes_to_tcp deployment echo_to_message echo_to_tcp far iterations limit limit_bytes_per_s
			limit_messages_per_s limit_p50_ns link lost message_bytes_per_s message_p50_ns messages_per_s p50_ns p90_ns p999_ns p99_ns plain_ratio ratio round_ratios sealed size stream_bytes_per_s stream_p50_ns tcp_bytes_per_s tcp_p50_ns`},
		KindContended: {new(ContestRow), `against bench bytes_per_s deployment hogs link over p50_ns p99_ns ratio_bytes ratio_p50 ratio_p99 sealed size streams
			tcp_bytes_per_s tcp_p50_ns tcp_p99_ns`},
		KindLoss:             {new(LossRow), `bench bytes_per_s clean_bytes_per_s deployment goodput_ratio link loss lost p50_ns p90_ns p999_ns p99_ns round_ratios round_trips sealed size`},
		KindPoll:             {new(PollRow), `bench iterations poll_ns processes sealed`},
		KindIdle:             {new(IdleRow), `attached_core_fraction bench core_fraction daemon_core_fraction processes sealed seconds`},
		KindFairness:         {new(FairRow), `bench bytes_per_s jain max_bytes_per_s median_bytes_per_s min_bytes_per_s processes sealed size`},
		KindIncast:           {new(IncastRow), `alone_p50_ns alone_p99_ns bench bytes_per_s drops jain sealed senders size small_p50_ns small_p99_ns`},
		KindAllReduce:        {new(GroupRow), `bench iterations link members p50_ns p90_ns p999_ns p99_ns sealed size`},
		KindLimits:           {new(LimitRow), `bytes_per_s limit messages_per_s p50_ns sealed size`},
		"hostile":            {new(HostileRow), `acts attached bench busy_p50_ns busy_p99_ns exchanges killed kind named p50_ns p99_ns ratio refused sealed thrown_out what`},
		KindProgram:          {new(ProgramRow), `bench deployment iterations limit limit_bytes_per_s limit_messages_per_s limit_p50_ns link lost p50_ns p90_ns p999_ns p99_ns ratio resident round_ratios sealed series size wait`},
		"program --internal": {new(InternalRow), `allocs bench internal sealed size took_ns`},
		KindPages:            {new(CopiesRow), `bench copies_per_page link p50_ns scenario sealed`},
		KindPageIn:           {new(PagesRow), `bench call_p50_ns depth link p50_ns p99_ns page_bytes pages_per_s ratio sealed`},
		KindNetstar:          {new(NetstarRow), `bench calls copies deployment how link link_calls messages missing rate recovery sealed size tick timer what`},
		KindParallel:         {new(ParallelRow), `aim at_least baseline baseline_ns bench bound case iterations measure met missing ranks ratio round_ratios size took_ns`},
		KindVM:               {new(VMRow), `bench iterations kernel native_ratio ns_per_op ops_per_s sealed`},
	} {
		fill(reflect.ValueOf(c.row).Elem())
		b, err := json.Marshal(c.row)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s has the fields\n%s\nexpected\n%s", what, strings.Join(got, " "), c.want)
		}
	}
}
