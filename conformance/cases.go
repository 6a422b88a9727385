package conformance

import "slices"

// allCases lists the cases by topic. The order is that of the report.
func allCases() []Case {
	return slices.Concat(
		staleCases(),
		orderCases(),
		replayCases(),
		conflictCases(),
		onceCases(),
		atomicCases(),
		monotonicCases(),
		durableCases(),
		killCases(),
		exactCases(),
		apartCases(),
		promptCases(),
		vectorCases(),
		raceCases(),
		scheduleCases(),
	)
}
