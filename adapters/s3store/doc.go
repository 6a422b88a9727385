// Package s3store keeps a fenced store in an S3 bucket: package sdk/cas over
// conditional PUTs (If-None-Match: * and If-Match), with aws-sdk-go-v2.
//
// The commit is the PUT of a resource's head on the condition that its ETag is
// still the one that was read. The ETag is opaque and may come back for the same
// bytes; heads carry a sequence and a nonce, so their bytes never do. 412, 409
// ConditionalRequestConflict and 404 are three different answers: another head,
// no decision (NOT_APPLIED), and a head that vanished. Conditional writes are
// sent once, without the SDK's retries: our own success must not come back as a
// lost race.
//
// What is sent is whole: payloads are signed or carry a checksum, as
// Options.Checksum says, and a read body is held against its ETag where the
// bucket's ETags are MD5 sums, as Probe and the first write find out.
//
// # Layout "object"
//
// With layout=object the value of the key "content" is an object of its own that
// anybody may read with a plain GET: its key is Options.Objects and the resource,
// and the fence lies in its metadata. Receipts and other keys lie below the
// prefix as before. An object that was there before is taken on as it is; one
// that is written past the gate loses its metadata, which the next read reports
// as FENCE_REGRESSION. Every mutation, a claim too, writes the object anew.
//
// An ETag is in most buckets the MD5 of the bytes, whatever the metadata say: two
// versions with the same bytes have the same, and a stale writer's If-Match would
// hold. So the team must say how bytes are unique:
//
//	unique=space   64 characters of white space follow the value: JSON, XML, text
//	unique=gzip    the object is a gzip stream whose header carries a nonce, with
//	               Content-Encoding: gzip, which HTTP clients undo
//	unique=etag    nothing is added: only for buckets whose ETags are never used
//	               twice (directory buckets, SSE-KMS); Probe tries that
//
// # Limits
//
// No caller's code and no native effects: another object cannot change in the
// step that swaps the head. Multipart uploads are not used.
//
// # What the bucket must be
//
// Strongly consistent, with conditional writes that are decided atomically; no
// lifecycle rule may expire or delete under the prefix. Probe tries all of it.
// The writers need s3:GetObject, s3:PutObject and s3:ListBucket on the prefix
// and, for Probe, s3:GetLifecycleConfiguration; they need no permission to
// delete. Enforcement begins when nobody else may put objects under the prefix:
// give s3:PutObject on it to the gate's role alone.
package s3store
