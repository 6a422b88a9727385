package sdk

// registryLaws are kept by the registry.
func registryLaws() []LawText {
	return []LawText{
		{ID: R1, Name: "increasing", Keeper: "registry",
			Sentence: "The tokens of a resource strictly increase, through one linearizable step.",
			Why: "The fence is only as good as its numbers. Two registry nodes that each count for themselves hand " +
				"out 7 and 7, or 8 and then 7, and the newer owner is the stale one.",
			Breaks: "The token is a clock, a random ID, or a counter in memory. It is a version number that changes " +
				"but is not ordered. It comes from a cache that was promoted after a failover and had not seen " +
				"the last increments. A 32-bit sequence wraps and goes on with a negative number.",
			Fix: "Take the token from one compare-and-swap in a linearizable backend, per resource. Refuse a " +
				"coordinator that cannot give an ordered, durable number, and treat a number that shrinks as " +
				"exhausted, for good.",
		},
		{ID: R2, Name: "one request, one grant", Keeper: "registry",
			Sentence: "One resource, owner and request ID give one grant: asking again returns it, for at least 24 h " +
				"after the lease ended (then as EXPIRED), and asking with other parameters is INVALID; the record " +
				"does not hang on the lease.",
			Why: "A worker asks, and the answer is lost. If asking again yields a second grant with a higher " +
				"token, then the first is stale before it was ever seen, and a worker that retries three times " +
				"has three owners, all of them itself, competing for one resource.",
			Breaks: "The request ID lives in the lease's record and goes with it. A create that succeeded and lost " +
				"its reply leaves an orphan that blocks everybody, its maker included. The same ID with another " +
				"resource or time to live is quietly served.",
			Fix: "Keep the request's record apart from the lease and write both in one step. Compare the " +
				"parameters on every repetition. Return an ended lease as EXPIRED, never as a new one.",
		},
		{ID: R3, Name: "immutable", Keeper: "registry",
			Sentence: "A grant never changes; renewing extends the lease and yields a new status proof.",
			Why: "The store recognizes a grant by its digest. If renewal made a new grant, then every renewed " +
				"worker would meet its own fence under another digest, which is F13's alarm; if it kept the " +
				"digest and changed the content, then signatures would mean nothing.",
			Breaks: "The expiry is a field of the grant. Renewal draws a new token to be on the safe side. The proof " +
				"is cached by grant and the old one is returned after the lease was lost.",
			Fix: "Put only what stays into the grant, and what passes into the status proof: state, backend " +
				"revision, issue and end. Read the backend before each proof.",
		},
		{ID: R4, Name: "one holder", Keeper: "registry",
			Sentence: "A resource has at most one holder at a time.",
			Why: "The fence makes two holders harmless for the data, not for the work: both compute for an hour, " +
				"and one throws its hour away. A registry that has two holders as a rule also hides the day on " +
				"which that is a fault.",
			Breaks: "A lock node of a dead session is taken as proof of a living holder, or of a free lock. The old " +
				"holder is removed by another node's clock. Release by name removes the lock of the one who came " +
				"after.",
			Fix: "Decide acquisition, expiry and release in the backend, by lease identity and not by name, and " +
				"grant only when the backend says that the previous lease has ended.",
		},
		{ID: R5, Name: "floor", Keeper: "registry",
			Sentence: "A token is never issued at or below what was issued or stored before. When the backend went back " +
				"(a restored snapshot), issuing pauses with FENCE_REGRESSION until an operator raises the floor " +
				"above the highest stored fence. A registry with neither a durable high-water mark nor its stores " +
				"refuses to start.",
			Why: "After the restore the registry honestly issues 999500, while the store stands at 1000000. Every " +
				"new owner is refused as stale for weeks, or, worse, a token comes out a second time and two " +
				"grants share it.",
			Breaks: "The token is the backend's revision, which a restore turns back, and nobody compares it with " +
				"anything outside. The mark is kept in the same backend and is restored along with it. Issuing " +
				"goes on and skips ahead by a guess.",
			Fix: "Keep the high-water mark where the backend's snapshot does not reach, or ask the registered " +
				"stores at the start. Stop instead of guessing, and let a person raise the floor with a recorded " +
				"operation.",
		},
		{ID: R6, Name: "release", Keeper: "registry",
			Sentence: "Release ends the lease, and says nothing about the operation.",
			Why: "\"The lock is free\" is easily read as \"the work is done\". A worker that releases in its shutdown " +
				"handler after a failed write frees the resource; the next owner sees a clean release, assumes " +
				"success and never looks for the receipt.",
			Breaks: "Release deletes fence or receipts along with the lock. A released lease is reported as a " +
				"finished job. The clean-up of a lost lease removes data that is current by then.",
			Fix: "Ask the store for the receipt whether an operation was done, whatever became of the lease. Keep " +
				"release to the lease, and make any clean-up a fenced mutation.",
		},
	}
}

// leaseLaws are kept by the worker's session.
func leaseLaws() []LawText {
	return []LawText{
		{ID: L1, Name: "edges", Keeper: "worker",
			Sentence: "A lease goes from REQUESTED to HELD, OWNERSHIP_UNKNOWN or EXPIRED; from HELD to RENEWING, " +
				"OWNERSHIP_UNKNOWN, EXPIRED or RELEASED; from RENEWING to HELD, OWNERSHIP_UNKNOWN or EXPIRED; " +
				"from OWNERSHIP_UNKNOWN to HELD, EXPIRED or RELEASED; there is no other edge.",
			Why: "The states that are easy to forget are those between. A worker whose renewal timed out is not " +
				"HELD and not EXPIRED; if the program knows only these two, then it either goes on writing or " +
				"throws away an hour of work that it still owned.",
			Breaks: "A lost connection sets \"not holding\" and the reconnect sets \"holding\" again without asking. An " +
				"EXPIRED lease comes back to life when a late answer arrives. Release from REQUESTED leaves an " +
				"orphan.",
			Fix: "Keep the state in one place, change it along the listed edges only, and let every other change " +
				"be an error in tests. EXPIRED and RELEASED are final: acquire again.",
		},
		{ID: L2, Name: "quiet", Keeper: "worker",
			Sentence: "Outside HELD and RENEWING no new effect starts; sending an identical mutation again is not a new " +
				"effect.",
			Why: "The store would refuse a stale write, but not everything that a worker does is a write to the " +
				"store: mails go out, machines start. A worker that is unsure of its lease and goes on does harm " +
				"that no fence can stop.",
			Breaks: "The state is checked at the beginning of an hour of work and not before each effect. A " +
				"background flush does not look at it. Or everything stops, the retry that would settle an " +
				"unknown outcome included.",
			Fix: "Ask the session before each effect, not once per job. Let an identical retry pass, since F4 " +
				"makes it harmless, and nothing else.",
		},
		{ID: L3, Name: "local deadline", Keeper: "worker",
			Sentence: "The local deadline is monotonic time from before the request was sent, never a silent channel.",
			Why: "The renewal is sent, the process is stopped for 50 seconds, and the answer says that the lease " +
				"holds for ten seconds. Counted from the answer, the worker believes in a lease that ended 40 " +
				"seconds ago.",
			Breaks: "The deadline is counted from when the answer arrived, or by the wall clock, which somebody may " +
				"set. The worker waits for a keep-alive channel to close, and in a partition it never does. The " +
				"timeout of a request is longer than the lease it is to renew. Renewal runs in the background and " +
				"outlives the worker it speaks for.",
			Fix: "Take the monotonic time before sending, add the lease, subtract a margin, and stop there, " +
				"whatever the client library says. Keep request timeout and margin together below the lease.",
		},
		{ID: L4, Name: "lost acquire", Keeper: "worker",
			Sentence: "After a lost acquire: the same request ID again, or wait out its expiry.",
			Why: "The acquire was granted and its answer lost. A worker that asks with a new request ID queues " +
				"behind its own lease, for as long as that lives, or takes over from itself and makes its own " +
				"first grant stale.",
			Breaks: "The request ID is drawn inside the retry loop. After an error the worker assumes that nothing " +
				"was granted, and a forgotten lease blocks the resource. A node found after a reconnect is " +
				"adopted although it belongs to a session that is about to end.",
			Fix: "Draw the request ID once, before the first attempt, and keep it until there is an answer. R2 " +
				"makes the repetition safe.",
		},
	}
}

// rolloutLaws are kept while a fleet changes.
func rolloutLaws() []LawText {
	return []LawText{
		{ID: P1, Name: "one way", Keeper: "gate and store",
			Sentence: "A resource goes from shadow to enforce, never back; there is no off. The store remembers: a " +
				"resource with fence state in the enforcing namespace is enforced, whatever a policy file says " +
				"after a restart or on another host. At each takeover the fence record takes the generations of " +
				"policy and trust bundle; a gate reads them on first use of a resource and refuses with " +
				"POLICY_STALE when its own are older. Shadow keeps its own state in a namespace of its own; going " +
				"to enforce seeds the fence from it, never receipts.",
			Why: "A protection with an off switch is off on the day it is needed. One host restarts with last " +
				"month's policy file, treats an enforced resource as shadow, runs the unfenced write and only " +
				"notes in a log that the gate would have refused.",
			Breaks: "The mode is read from a file and remembered nowhere. Rolling back a release rolls back the " +
				"policy. Going to enforce starts at fence 0, so that a worker from before is accepted; or it " +
				"copies the receipts of shadow, which stand for writes that were never fenced.",
			Fix: "Ask the store before believing the policy, on the first use of each resource. Distribute the " +
				"newer generation; do not lower it. Seed the fence from the shadow namespace in the first " +
				"accepted mutation, and nothing else.",
		},
		{ID: P2, Name: "succession", Keeper: "gate",
			Sentence: "A trust bundle is replaced only by the next generation, signed by the threshold of the current " +
				"one's root keys.",
			Why: "The bundle says whom to believe. If a file can replace it, then who can write the file owns " +
				"every resource; if an older one can, then yesterday's revoked key is trusted again.",
			Breaks: "The newest file by date wins. The signature is checked against keys that the new bundle brings " +
				"along. A generation is skipped, and the revocation that it carried with it. One person's key " +
				"counts twice towards the threshold.",
			Fix: "Use Bundle.Rotate or trust.Holder, which take only generation plus one, checked with the keys " +
				"that are in force now, each counted once. A gate that missed generations takes them one after " +
				"another.",
		},
		{ID: P3, Name: "switch", Keeper: "operator and gate",
			Sentence: "Switching the coordination client goes in this order: revoke the old issuer epoch at every gate, " +
				"wait proof lifetime plus skew, raise above the maximum of every store registered for the " +
				"resource and of the old client's last issue, then issue under a new epoch; until then gates " +
				"refuse writes.",
			Why: "Two coordination services that issue for one resource at the same time are two sequences of " +
				"tokens. The old one, at 900, and the new one, at 1, take turns in shutting each other's workers " +
				"out, or meet at one number and raise F13's alarm.",
			Breaks: "The new client is started beside the old one \"for a transition\". Its counter starts at 1, or " +
				"above the highest token of one store out of three. The old epoch is revoked at most gates. " +
				"Writes go on while it happens.",
			Fix: "Follow the order and accept the pause: its length is the proof lifetime plus the skew. Ask every " +
				"registered store for its highest fence and start above all of them and the old client's last.",
		},
	}
}
