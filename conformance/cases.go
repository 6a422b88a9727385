package conformance

import "slices"

// allCases lists the cases by topic. The order is that of the report.
func allCases() []Case {
	return slices.Concat(
		contractCases(),
		staleCases(),
		orderCases(),
		replayCases(),
		conflictCases(),
		atomicCases(),
		keepCases(),
		monotonicCases(),
		onceCases(),
		exactCases(),
		apartCases(),
		vectorCases(),
		durableCases(),
		honestCases(),
		resolveCases(),
		wireCases(),
		promptCases(),
		raceCases(),
		killCases(),
		scheduleCases(),
	)
}
