package udp

import (
	"fmt"
	"os"
	"strconv"
)

// WithoutOffload reads the kill switch of segmentation offload that needs no configuration, $WEFT_GSO: whether it is thrown.
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
