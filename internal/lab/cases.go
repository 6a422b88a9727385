package lab

import (
	"os"
	"regexp"
)

// WholeSuite is the variable that asks for every case of the suite on servers
// that are slow, such as moto, which takes some minutes for it.
const WholeSuite = "FENCEDSTORE_WHOLE_SUITE"

var quickCases = regexp.MustCompile(`^(contract|fence|claim|replay|exact|echo|wire|honest|monotonic|linearizable)/|^conflict/(position|operation|same|resolve)|^once/(next|new|across)|^atomic/(all|bad|native)|^apart/(native|key|shadow)`)

// SlowServerCases are the cases that make test plays on slow servers: all laws,
// without the verdict table and the large races. nil, for all cases, when
// WholeSuite is set.
func SlowServerCases() *regexp.Regexp {
	if os.Getenv(WholeSuite) != "" {
		return nil
	}
	return quickCases
}
