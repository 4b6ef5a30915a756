package program_test

import (
	"os"
	"testing"

	"github.com/weftnet/weft/internal/fabric/fabrictest"
)

func TestMain(m *testing.M) { os.Exit(fabrictest.Run(m)) }
