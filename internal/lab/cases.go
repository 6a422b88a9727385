package lab

import (
	"os"
	"regexp"
	"testing"
)

// WholeSuite is the variable that asks for every case of the suite on servers
// that are slow, such as moto, which takes some minutes for it.
const WholeSuite = "FENCEDSTORE_WHOLE_SUITE"

var quickCases = regexp.MustCompile(`^(contract|fence|claim|replay|exact|echo|wire|honest|monotonic|linearizable)/|^conflict/(position|operation|same|resolve)|^once/(next|new|across)|^atomic/(all|bad|native)|^apart/(native|key|shadow)`)

// shortCases are what the race detector is for: many calls at once.
var shortCases = regexp.MustCompile(`^(contract|echo|wire)/|^races/(first|takeover)|^apart/(native|many)`)

// SlowServerCases are the cases that make test plays on slow servers: all laws,
// without the verdict table and the large races. nil, for all cases, when
// WholeSuite is set; fewer in short tests.
func SlowServerCases() *regexp.Regexp {
	switch {
	case os.Getenv(WholeSuite) != "":
		return nil
	case testing.Short():
		return shortCases
	}
	return quickCases
}

// Cases are those for servers that are not slow: all of them, fewer in short
// tests.
func Cases() *regexp.Regexp {
	if testing.Short() {
		return shortCases
	}
	return nil
}
