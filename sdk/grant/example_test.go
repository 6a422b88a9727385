package grant_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
)

func ExampleSigner_Sign() {
	signer, err := grant.NewHMACSigner("k-1", bytes.Repeat([]byte("secret.."), 4))
	if err != nil {
		panic(err)
	}
	g := grant.Grant{Audience: "sqlite:a", Resource: "invoice-batch/2026-07-19", Owner: "worker-7", RequestID: "req-1", Lease: "lease-91",
		Category: "settle", Root: sdk.SumDigest([]byte("the job")), Fence: 8842, Backend: "etcd", PolicyGeneration: 12,
		Issuer: "registry-a", IssuerEpoch: 37, TTL: 10 * time.Second, IssuedAt: time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)}
	payload, err := g.Encode()
	if err != nil {
		panic(err)
	}
	envelope, err := signer.Sign(grant.GrantType, payload)
	if err != nil {
		panic(err)
	}
	e, err := grant.ParseEnvelope(envelope)
	if err != nil {
		panic(err)
	}
	fmt.Println(signer.Key().Verify(e.PayloadType, e.Payload, e.Signatures[0].Sig))
	// Output: <nil>
}

func ExampleParseGrant() {
	_, err := grant.ParseGrant([]byte(`{"schema":"lockGrant.v1","fenceToken":9007199254740993}`))
	fmt.Println(err)
	// Output: MALFORMED: fenceToken: a JSON number; integers are decimal strings, in quotes
}
