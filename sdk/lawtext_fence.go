package sdk

// fenceLaws are kept by the store in one atomic step.
func fenceLaws() []LawText {
	return []LawText{
		{ID: F1, Name: "stale", Keeper: "store",
			Sentence: "A mutation whose fence is below the highest accepted fence is STALE_OWNER, always, even one that " +
				"was accepted before, and changes nothing; the receipt of the operation, if there is one, comes " +
				"with the error.",
			Why: "This is what everything else is for. Worker A holds a ten-second lease, pauses for two minutes, " +
				"and B takes over and writes. A wakes up, still believes that it holds the lease, and overwrites " +
				"B's newer result. The lock service did its job; the data is corrupted all the same, because the " +
				"store never asked who was writing.",
			Breaks: "The fence is read first and compared in the program, and the write that follows carries no " +
				"condition. The comparison is <= where < is meant, or compares text, so that 9 is above 10. One " +
				"write path out of several, often a background flush, a retry or a delete, was forgotten. A " +
				"replay is looked for before the fence is compared, so that an old owner is told REPLAYED and " +
				"goes on believing that it owns the resource. A cached \"yes\" from before the takeover is used " +
				"again.",
			Fix: "Put the condition into the write itself: in the statement, the filter, the transaction or the " +
				"conditional put. Compare the fence before anything else but the ranges. Send every write, " +
				"clean-up and deletion included, through Apply.",
		},
		{ID: F2, Name: "takeover", Keeper: "store",
			Sentence: "A mutation with a fence above the highest accepted one is accepted only as segment 1; any other " +
				"segment is SEGMENT_SKIPPED.",
			Why: "A new owner whose first write was lost, and whose second arrives, would start its history with a " +
				"hole. Nobody could tell later whether segment 1 was never sent, was refused or is still on its " +
				"way; and a store that lets it land afterwards applies the steps of a job out of order.",
			Breaks: "A higher fence is taken as permission for anything. The segment is reset to whatever arrives. " +
				"The store takes the new fence on the refused segment and applies nothing, so that the old owner " +
				"is shut out by a write that was never accepted.",
			Fix: "On a higher fence demand segment 1 and change nothing otherwise, the fence included. Let the new " +
				"owner claim, which is segment 1 without effects, before its first business write.",
		},
		{ID: F3, Name: "order", Keeper: "store",
			Sentence: "A mutation at the highest fence is accepted only with that fence's operation root, else " +
				"ROOT_MISMATCH, and with the next segment: a later one is SEGMENT_SKIPPED.",
			Why: "A worker sends steps 1, 2 and 3; step 2 is delayed in a proxy, and step 3 overtakes it. If 3 is " +
				"accepted, then a ledger is closed before its last entry is posted, and when 2 arrives it either " +
				"changes a closed ledger or is lost. The root guards the other axis: two jobs that were handed " +
				"one grant would interleave their steps into a history that neither of them wrote.",
			Breaks: "Any segment above the last one is accepted. The root is stored at the takeover and never " +
				"compared. The segment is counted in the program and written back without a condition, so that " +
				"two handles both become the next.",
			Fix: "Make root and segment part of the same condition as the fence. Give the worker what was " +
				"observed, so that it can send what is missing.",
		},
		{ID: F4, Name: "replay", Keeper: "store",
			Sentence: "An accepted segment sent again with the same operation ID and payload digest is REPLAYED: the " +
				"original receipt, and no second effect.",
			Why: "Every network loses acknowledgements. The worker that heard nothing has only one safe move, " +
				"which is to send the same thing again; if the store applies it a second time, then the payment " +
				"goes out twice, and if the store refuses it, then the worker cannot know that the first one " +
				"arrived.",
			Breaks: "Replays are recognized by the segment alone, so that other content is waved through. The effect " +
				"is applied again, which is harmless for a put and ruinous for an increment. The receipt is " +
				"written anew, with a new time and a new owner, so that two callers hold two different receipts " +
				"for one write. A client library's own request token is relied upon and forgets after ten " +
				"minutes.",
			Fix: "Keep the receipt for ever beside the data, written in the same step; on a repeated position " +
				"compare operation, payload, fence, segment and grant with it and return it as it is.",
		},
		{ID: F5, Name: "conflict", Keeper: "store",
			Sentence: "An accepted segment with another operation or payload, or an accepted operation ID with another " +
				"payload, is QUARANTINED and nothing is applied. The answer is given only after the quarantine " +
				"record is durable, else it is NOT_APPLIED. Records are keyed by fence, segment, operation and " +
				"payload digest, are append-only, lie outside the head, and are capped with a counter; resolving " +
				"one is itself a recorded operation.",
			Why: "Two different writes at one position mean that a worker forgot what it had done: it restarted " +
				"and computed something else, or two copies of it run. To accept the second is to lose the first; " +
				"to drop it silently is to lose the second, and the bug with it. A person has to look, and there " +
				"must be something to look at.",
			Breaks: "The later payload overwrites the receipt of the earlier one. The verdict is answered and the " +
				"record is written afterwards, or only logged, and dies with the process. Records are kept in the " +
				"fence's own row, which grows until the store refuses every write. The same attempt, retried in a " +
				"loop, makes a thousand records.",
			Fix: "Write the record under its key, in the same transaction or before the answer, and say " +
				"NOT_APPLIED if it could not be written. Keep it apart from the head; stop at Limits.Quarantine " +
				"and count the rest. Settle a record with a fenced mutation that carries sdk.Resolve.",
		},
		{ID: F6, Name: "atomic", Keeper: "store",
			Sentence: "Fence, root, segment, receipt and every effect commit together or not at all.",
			Why: "Every gap between them is a crash away from a lie. The effect without the receipt: the next " +
				"owner finds no trace, does the work again, and the customer is charged twice. The receipt " +
				"without the effect: the next owner believes that the work was done, and it never was. The effect " +
				"before the fence: an old owner's write slips in between.",
			Breaks: "The receipt is a second write after the commit. Fence and data go into two groups of a batch " +
				"that is not one transaction. A value larger than the store's row is put into a second object " +
				"after the head. A statement inside the transaction failed, its error was dropped, and the commit " +
				"of the aborted transaction answered as a rollback that nobody read.",
			Fix: "One transaction or one conditional write for all of it. What does not fit is staged before, " +
				"under a name that nobody reads yet, and becomes visible by the one conditional write. Take a " +
				"commit as done only when the store says committed; never delete what was staged while the " +
				"outcome is MUTATION_UNKNOWN.",
		},
		{ID: F7, Name: "monotonic", Keeper: "store",
			Sentence: "The stored fence never goes down: not by release, delete, time to live, restart or restore. " +
				"Absent is not zero: a missing fence where receipts or the marker exist is FENCE_REGRESSION. " +
				"Where fence and receipts live in one object, the first Apply writes a marker elsewhere after the " +
				"head and before it answers; an Apply that finds a head without its marker writes it first. " +
				"Effects that name the adapter's own tables, keys or transaction control are INVALID, and SQL " +
				"schemas carry triggers that abort a lowered or deleted fence.",
			Why: "A nightly job removes rows that were not touched for a week, and the fence at 12 is one of them. " +
				"On Monday a worker that slept since last Tuesday writes with fence 5; the store finds no fence, " +
				"takes it for a new resource and accepts. So does a restored backup, a deleted bucket object, and " +
				"the release handler that tidied up after itself.",
			Breaks: "The release deletes the record and the numbering starts again at 1. The fence has an expiry, or " +
				"lies under a lifecycle rule that somebody added later. A delete marker counts as \"does not exist " +
				"yet\". A missing condition target is answered by creating it. A failed parse of the stored number " +
				"counts as 0. Operators repair by deleting the row.",
			Fix: "Never delete a fence and let nothing else do it: no expiry, no deletion right for the workers, " +
				"triggers where the store has them. Treat absence as an alarm wherever anything else shows that " +
				"the resource was in use. A manual override raises the token; it never erases it.",
		},
		{ID: F8, Name: "linearizable", Keeper: "store",
			Sentence: "Inspect, Receipt and Read see every mutation that was accepted before they began.",
			Why: "B takes over, looks whether A's operation is done, is answered by a replica that lags two " +
				"seconds, finds nothing, and does it again. Recovery rests on one sentence, \"there is no " +
				"receipt\", and a stale read makes the sentence false.",
			Breaks: "Reads go to a follower, a cache or an eventually consistent index, because that is the client " +
				"library's default. The write concern is below majority, so that a failover takes an acknowledged " +
				"write back. A read inside a snapshot that began earlier is used. Tables that several regions " +
				"write to are read in one region.",
			Fix: "Ask for the store's strongest read each time and pin the write concern in the adapter, not in " +
				"the caller's configuration. Let Probe refuse what cannot give it, as UNSUITABLE.",
		},
		{ID: F9, Name: "durable", Keeper: "store",
			Sentence: "An accepted mutation survives the death of worker, adapter, plug-in and store process.",
			Why: "The store says ACCEPTED, the worker tells the customer, the machine loses power, and after the " +
				"restart the write never happened; perhaps the fence is lower too, and the old owner is welcome " +
				"again. An acknowledgement that can be taken back is no acknowledgement.",
			Breaks: "The sync to disk is switched off or shared with a commit that is not waited for. The answer is " +
				"given when the write is queued. A primary acknowledges before any replica has the write, and the " +
				"failover forgets it. An emulator answers OK and drops writes under load.",
			Fix: "Answer after the store's durable commit and not before. Pin the setting in the adapter and let " +
				"Probe read it back. A store that cannot do it declares durable as unsupported, and its " +
				"certificate says \"for tests only\".",
		},
		{ID: F10, Name: "once", Keeper: "store",
			Sentence: "An operation ID has at most one receipt in a resource, for ever: receipts are permanent. Sent " +
				"again under another fence or as the next segment with the same payload, it is the error " +
				"ALREADY_APPLIED with the original receipt; the segment is not used up, the fence does not move, " +
				"and nothing was taken over.",
			Why: "A does the work and dies before it can tell. B takes over and, as it should, sends the same " +
				"operation under its own fence. If the store looks only at fence and segment, then it is a new " +
				"write and the work is done twice, by two workers that both behaved well.",
			Breaks: "Receipts are keyed by fence and segment instead of by operation. Receipts expire after a day, " +
				"and a job that was stuck for two repeats its work. The answer \"already applied\" moves the fence " +
				"or uses up the segment, so that the new owner's next write is refused. A caller takes " +
				"ALREADY_APPLIED as a takeover that succeeded, although the old owner is still the newest.",
			Fix: "Make the pair of resource and operation ID unique in the store, check it in the same step, and " +
				"keep receipts for ever. After ALREADY_APPLIED reuse the receipt's result and send another " +
				"operation at the same segment. To take over, claim.",
		},
		{ID: F11, Name: "exact tokens", Keeper: "store",
			Sentence: "All of 1 to 2^63-1 compare as integers: 2^53+1 is above 2^53, and 10 is above 9.",
			Why: "Most stores have a number type that is a float, or sort keys as text. At fence 9 to 10 the text " +
				"order flips and every new owner is stale; at 2^53 two neighbouring tokens become one, and the " +
				"old owner and the new one are both the newest.",
			Breaks: "Tokens are stored as text without padding, or decoded into \"any\", which makes them floats. A " +
				"codec casts an unsigned number to a signed one and stores it as negative, after which fence 1 is " +
				"accepted. A sequence of 32 bits wraps. \"1e3\" or \"1.0\" is taken as a number, or a failed parse as " +
				"0.",
			Fix: "Store tokens as 64-bit signed integers, or as text of fixed width, and read them back with " +
				"sdk.ParseToken. A stored value that is not an exact integer is a damaged record: UNSUITABLE, " +
				"never 0.",
		},
		{ID: F12, Name: "apart", Keeper: "store",
			Sentence: "No mutation of one resource changes or blocks another's verdict. Native effects are refused " +
				"unless the store was opened with a scope function (resource, effect) that returns an error for " +
				"what is outside.",
			Why: "The fence of one resource says nothing about another. A worker that holds reports/7 sends an " +
				"UPDATE without a WHERE clause, and it lands, fenced, atomic and with a receipt, on everybody's " +
				"rows. And where one lock guards the whole table, a single paused worker stops a thousand others.",
			Breaks: "Native statements are run as they come. Two resource IDs map to one key, because case is folded, " +
				"a prefix is matched or a character is replaced. One long transaction or one table lock is held " +
				"across resources. Keys of one resource are listed by a prefix that is also the beginning of " +
				"another's.",
			Fix: "Encode the resource ID into keys one to one, with lengths or separators that it cannot contain. " +
				"Lock the resource's own row. Require OpenOptions.Scope for native effects and write it as a list " +
				"of what is allowed.",
		},
		{ID: F13, Name: "one grant", Keeper: "store",
			Sentence: "A mutation at the highest fence under another grant's digest means that a token was issued " +
				"twice: FENCE_REGRESSION, and nothing changes.",
			Why: "The registry's database was restored from last night's snapshot and hands out token 41 a second " +
				"time. Both workers hold an authentic grant, both have the highest fence, and the order of their " +
				"writes is decided by chance. Only the digest of the grant tells them apart.",
			Breaks: "Only the token is stored and compared. The owner's name is compared instead, and the same worker " +
				"with a second grant passes. The conflict is answered as STALE_OWNER, so that nobody learns that " +
				"the registry is broken, and the next token is wrong as well.",
			Fix: "Store the grant's digest with the fence and make it part of the condition. Answer " +
				"FENCE_REGRESSION, stop the writers of the resource, and raise the registry's floor above the " +
				"highest stored fence.",
		},
	}
}

// outcomeLaws are kept by adapter and gate.
func outcomeLaws() []LawText {
	return []LawText{
		{ID: O1, Name: "honest", Keeper: "adapter and gate",
			Sentence: "An error is NOT_APPLIED only where it is proved that nothing was or will be applied. Everything " +
				"else after the first byte was sent is MUTATION_UNKNOWN. The list of proofs is closed; the " +
				"default is unknown.",
			Why: "\"Failed\" is the most expensive lie. The commit was applied, its reply timed out, the adapter " +
				"says that nothing happened; the worker undoes its preparations, deletes the file that the " +
				"committed record points at, or does the work again under a new ID.",
			Breaks: "Every error becomes \"failed\". The last of three attempts decides, although the first was the one " +
				"that arrived. A timeout while waiting for a connection, which proves that nothing was sent, and " +
				"a timeout after sending, which proves nothing, share one code. A client library retries in " +
				"silence and reports only its last answer. The first reason of a cancelled transaction is read " +
				"and the others are not.",
			Fix: "Sort errors by phase: before the first byte, NOT_APPLIED; an explicit rollback by the store, " +
				"NOT_APPLIED; everything else, MUTATION_UNKNOWN. Keep it as one table of typed errors with a test " +
				"that walks it, and let the empty case be unknown. Switch off retries that you cannot see.",
		},
		{ID: O2, Name: "own echo", Keeper: "adapter and gate",
			Sentence: "Within one ApplyFencedMutation call an earlier attempt of which may have reached the store, a " +
				"receipt equal in operation, payload digest, fence, segment and grant is REPLAYED, whatever the " +
				"last attempt was told. Any other receipt gets Decide's verdict. A new call below the highest " +
				"fence is STALE_OWNER.",
			Why: "The first attempt is applied and its reply is lost. The second, sent by a retry deep in the " +
				"client library, fails its condition against the result of the first, and the worker is told that " +
				"a newer owner exists. It stops its job, alarms somebody, and the newest owner was itself.",
			Breaks: "A failed condition is taken as a verdict without asking what made it fail. One of several write " +
				"paths has the comparison, usually renewal, and creation, takeover and release have not. The " +
				"comparison is too generous and takes another owner's receipt for one's own. It is applied across " +
				"calls, and an old owner is told REPLAYED.",
			Fix: "When any attempt of this call may have reached the store, read the receipt with the strongest " +
				"read before answering a refusal, and compare all five fields with Receipt.Echoes. Do it in the " +
				"one place through which all writes go.",
		},
		{ID: O3, Name: "resolvable", Keeper: "adapter and gate",
			Sentence: "After an acknowledged claim, or an observed highest fence above one's own, a receipt lookup " +
				"begun afterwards that finds nothing proves that no attempt under a lower fence can land any " +
				"more. In this order, never the other. The work is then redone under the same operation ID; who " +
				"chooses another first leaves a tombstone receipt for the old one.",
			Why: "MUTATION_UNKNOWN must have an end. B looks for the receipt, finds none, and then claims; in " +
				"between, A's delayed write lands. B does the work again. With the two steps in the other order " +
				"A's write is either found, or refused for ever.",
			Breaks: "The lookup comes first because it is cheaper. A claim that was answered MUTATION_UNKNOWN counts " +
				"as acknowledged. NOT_FOUND is answered for a receipt that could not be read. A new operation ID " +
				"is drawn for each attempt, so that nothing can be found under the old one.",
			Fix: "Claim, wait for ACCEPTED or REPLAYED, then begin the lookup. Never answer NOT_FOUND for an " +
				"error. Choose operation IDs by the work, not by the attempt; package sdk/reconcile does the " +
				"steps in order.",
		},
		{ID: O4, Name: "prompt", Keeper: "adapter and gate",
			Sentence: "A cancelled or expired context ends the call promptly, with O1's answer.",
			Why: "The worker's lease ends in two seconds and it wants to stop. A call that goes on for a minute " +
				"keeps it from saying so, and a write that lands at the end of that minute is one that nobody " +
				"waits for. The other half is as bad: a call that returns at once and says that nothing happened, " +
				"while the write is on its way.",
			Breaks: "The context reaches the first query but not the commit. A retry loop sleeps without looking at " +
				"it. The client library's own timeout is longer than the lease. On cancellation the adapter " +
				"returns the context's error, without a code, for a request that was sent.",
			Fix: "Thread the context into every call and every wait; return as soon as it ends, with NOT_APPLIED " +
				"if nothing was sent and MUTATION_UNKNOWN if anything was. Let the rest of the call finish behind " +
				"the scenes, and release its connection.",
		},
	}
}
