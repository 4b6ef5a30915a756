package sweep

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestX(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	s, _ := strconv.ParseUint(os.Getenv("S"), 10, 64)
	if n == 0 {
		fmt.Printf("%+v\n", *newPlan(s))
		r := RunLogged(s, mutate.None, os.Stdout)
		for _, v := range r.Violations {
			fmt.Println(v)
		}
		return
	}
	r := Sweep(context.Background(), Options{First: s, Seeds: max(n, 1), Defect: mutate.None})
	r.Write(os.Stdout)
}
