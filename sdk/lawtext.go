package sdk

import "slices"

// Laws returns the text of every law, in the order of this version's design:
// authentication, fence, outcome, registry, lease, rollout. The slice is the
// caller's.
func Laws() []LawText {
	return slices.Concat(authenticationLaws(), fenceLaws(), outcomeLaws(), registryLaws(), leaseLaws(), rolloutLaws())
}

// Text returns the text of l; the zero LawText for a law that this version
// does not know.
func (l Law) Text() LawText {
	for _, t := range Laws() {
		if t.ID == l {
			return t
		}
	}
	return LawText{}
}

// authenticationLaws are kept by the gate before any store call.
func authenticationLaws() []LawText {
	return []LawText{
		{ID: A1, Name: "authentic", Keeper: "gate",
			Sentence: "The grant's one signature or MAC verifies under a key that the trust bundle lists for the " +
				"grant's issuer and epoch, and the algorithm is a property of that key, never of the message. The " +
				"bundle gives each issuer its resource patterns, disjoint from the others'; a grant outside its " +
				"issuer's patterns is UNAUTHENTICATED. A status proof's issuer and epoch are the grant's.",
			Why: "Whoever can name the algorithm can forge. A worker takes the registry's public key, which is no " +
				"secret, uses its bytes as an HMAC secret, writes \"hmac-sha256\" into the message and hands itself " +
				"fence 9000000000000000000. From then on every honest owner is STALE_OWNER, and the resource is " +
				"the forger's.",
			Breaks: "The verifier picks the algorithm by a field of the message. \"none\" or an empty algorithm is let " +
				"through. The key ID is used as a path, an address or a query, so that the message chooses the " +
				"key. Every issuer in the bundle may speak for every resource, so one team's registry grants on " +
				"another team's data. A MAC is compared byte by byte and tells by its timing how much was right.",
			Fix: "Look the key up by its ID in memory and nowhere else; take algorithm, issuer and epoch from the " +
				"key's own record; then check that the issuer's patterns cover the resource. Compare MACs in " +
				"constant time. Nobody but package sdk/trust should verify anything: call VerifyGrant and " +
				"VerifyProof.",
		},
		{ID: A2, Name: "exact", Keeper: "gate",
			Sentence: "The bytes that were signed are the bytes that are parsed; unknown, repeated and case-variant " +
				"fields, malformed UTF-8, out-of-range numbers and non-canonical resource IDs are refused.",
			Why: "Two parsers that read one message differently are two messages under one signature. The registry " +
				"signs fence 9007199254740992; a gate that goes through a float reads 9007199254740993, or the " +
				"other way round, and two owners stand at what each believes to be its own token. With a repeated " +
				"field the auditor's tool shows the first value and the gate acts on the last.",
			Breaks: "The payload is decoded, encoded again and then verified. Field names match in any letter case, " +
				"so \"Token\" overwrites \"token\"; some folding even takes a long s or a Kelvin sign for a letter. " +
				"The last of two equal fields wins silently. Integers pass through float64. A resource ID with a " +
				"doubled slash or an escaped dot is repaired instead of refused, and one thing gets two fences.",
			Fix: "Verify the received bytes and parse those same bytes, once, strictly; never encode again to " +
				"verify. Write integers that can pass 2^53 as decimal strings. Refuse what is not canonical and " +
				"name the field. Use grant.ParseGrant and grant.ParseProof, also in tools and plug-ins.",
		},
		{ID: A3, Name: "bound", Keeper: "gate",
			Sentence: "Audience, resource, operation root and category of the request are the grant's own, else " +
				"RESOURCE_MISMATCH; a proof for another grant, resource or token is NOT_HELD.",
			Why: "An authentic grant is still not a grant for this. A worker that holds invoices/41 sends its " +
				"grant along with a write to invoices/42 and the write lands, signed and sealed, on data that " +
				"another worker owns. Or a grant for the staging store is replayed against production, where the " +
				"fence tokens happen to be lower.",
			Breaks: "The gate checks that the signature is good and forgets to compare what was signed with what is " +
				"asked. The audience comes from the request, or from a setting that a tenant can change. Only the " +
				"issuer is checked, so a grant for one service works at another. A status proof is checked for " +
				"HELD but not for the grant it speaks of.",
			Fix: "Compare all four fields with the verified grant, byte for byte, and take the gate's own audience " +
				"from its configuration. Compare the proof's grant digest, resource and fence with the grant's " +
				"before looking at its state.",
		},
		{ID: A4, Name: "caller", Keeper: "gate",
			Sentence: "The caller's workload identity equals the grant's owner, else OWNER_MISMATCH.",
			Why: "Grants travel: through queues, logs and crash dumps. If possession is enough, then a debugging " +
				"script that picks up yesterday's message writes as the worker that it was sent to, under the " +
				"newest fence, and no later check can tell the two apart.",
			Breaks: "The owner is read from the request that also carries the grant, so it always fits. The identity " +
				"is a host name that two containers share, or the connecting proxy's rather than the worker's. " +
				"The check is left out where no identity is configured.",
			Fix: "Take the identity from what the transport proved (a peer certificate, a platform's token) or " +
				"from the process's own fixed configuration, never from the request. A gate without a caller " +
				"identity does not start.",
		},
		{ID: A5, Name: "live", Keeper: "gate",
			Sentence: "A status proof for exactly this grant digest says HELD and has not run out, or a linearizable " +
				"registry query says HELD. A proof ends no later than the backend's lease and lives at most 60 s; " +
				"Apply's context ends with it. A proof dated beyond now plus skew shows that this clock is slow: " +
				"proofs are then not taken until it is right again.",
			Why: "The fence stops an old owner only once a newer one has written. Between the end of A's lease and " +
				"B's first write, A is the newest owner that the store knows, and everything that A sends is " +
				"accepted, hours after its lease ended. Where nobody takes over, a worker that was cut off goes " +
				"on for ever.",
			Breaks: "The proof's own end is checked but not the clock that judges it, so that a host whose clock is " +
				"slow sees every proof as fresh. The skew is allowed on one side only, or is longer than the " +
				"proof's life. The proof is checked, and then the write waits two minutes in a queue. A cached " +
				"proof is taken as valid because the grant is. An expired lease is reported as STALE_OWNER " +
				"although no newer owner exists, and the worker gives up for good.",
			Fix: "Check the proof on every call, also for cached grants; give Apply a deadline at the proof's end; " +
				"allow the same small skew on both sides. Answer NOT_HELD, which a newer proof cures, and leave " +
				"STALE_OWNER to the store.",
		},
		{ID: A6, Name: "current", Keeper: "gate",
			Sentence: "The issuer epoch is not revoked, else REVOKED, and the policy generation is the current one or " +
				"in the trust bundle's listed overlap, else POLICY_STALE.",
			Why: "A registry was broken into on Monday, and its key was replaced on Tuesday. Without this law " +
				"every grant that was signed on Monday still opens the gate on Friday, and the only remedy is to " +
				"wait until the last one has run out.",
			Breaks: "Revocation is looked at when a grant is first verified, and the result is cached with it, so " +
				"that a grant in use is never revoked. Only the minimum epoch is compared, and an epoch revoked " +
				"by name in the middle is missed. An old policy generation is accepted because it was accepted " +
				"once.",
			Fix: "Keep revocation and generation out of the cache: call Bundle.CheckCurrent on every request, with " +
				"the newest bundle. List each overlapping generation by number and drop it when the last grant " +
				"under it has ended.",
		},
		{ID: A7, Name: "no trace", Keeper: "gate",
			Sentence: "A request that fails A1 to A6 causes no store call: no fence moves, no receipt is written, no " +
				"quarantine is recorded.",
			Why: "A refusal that leaves something behind is a weapon. If an unauthenticated request can raise the " +
				"fence, then anybody can shut the owner out; if it can fill the quarantine, then anybody can hide " +
				"the one record that mattered among a million.",
			Breaks: "The gate reads the resource's state first, to give a better message, and the read creates the " +
				"record. Failed requests are written to the same table as an audit trail. Checks run in parallel " +
				"with the write to save a round trip.",
			Fix: "Finish A1 to A6 before the first byte goes to the store, and keep the record of refusals in logs " +
				"and metrics. The suite counts store calls: a refused request has none.",
		},
	}
}
