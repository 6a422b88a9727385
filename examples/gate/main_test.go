package main

func Example() {
	main()
	// Output:
	// A, fence 1: ACCEPTED
	// B, fence 2: ACCEPTED
	// A, fence 1: STALE_OWNER - STALE_OWNER: a newer owner has written; stop, and do not send this grant again
	// balance: 250
}
