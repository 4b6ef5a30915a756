package udp

import (
	"fmt"
	"os"
	"strconv"
)

// WithoutOffload reports whether $WEFT_GSO, a kill switch that needs no configuration, turns
// segmentation offload off. It returns an error if the value is not a boolean.
func WithoutOffload() (bool, error) {
	s := os.Getenv("WEFT_GSO")
	if s == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("$WEFT_GSO is %q; expected true or false", s)
	}
	return !on, nil
}
