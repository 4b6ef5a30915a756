package sweep

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/weftnet/weft/internal/mutate"
)

func TestX(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	s, _ := strconv.ParseUint(os.Getenv("S"), 10, 64)
	r := Sweep(context.Background(), Options{First: s, Seeds: max(n, 1), Defect: mutate.None})
	r.Write(os.Stdout)
}
