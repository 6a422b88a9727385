package trust_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/fencedstore/fencedstore/sdk"
	"github.com/fencedstore/fencedstore/sdk/grant"
	"github.com/fencedstore/fencedstore/sdk/trust"
)

func ExampleHolder_Rotate() {
	b, err := os.ReadFile("../gate/testdata/trust.json")
	if err != nil {
		panic(err)
	}
	bundle, err := trust.Load(b)
	if err != nil {
		panic(err)
	}
	h := trust.NewHolder(bundle)
	// A bundle without root keys is replaced by hand only.
	fmt.Println(sdk.CodeOf(h.Rotate([]byte("{}"))), h.Bundle().Generation())
	// Output: UNSUITABLE 4
}

// A bundle for one store and one registry, and the next one that revokes the
// registry's epoch, signed by the root key.
func ExampleNew() {
	key := func(id string) *grant.Signer {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		s, err := grant.NewEd25519Signer(id, private)
		if err != nil {
			panic(err)
		}
		return s
	}
	root, registry := key("root-1"), key("registry-a-37")
	first, err := trust.New(trust.Spec{
		Generation: 1, Audience: "sqlite:settlement", PolicyGenerations: []uint64{12},
		Skew: time.Second, MaxProof: 30 * time.Second,
		Issuers: []trust.Issuer{{Name: "registry-a", Resources: []string{"invoice-batch/**"}, MinEpoch: 37,
			Keys: []trust.IssuerKey{{Key: registry.Key(), Epoch: 37}}}},
		RootKeys: []*grant.Key{root.Key()}, RootThreshold: 1,
	})
	if err != nil {
		panic(err)
	}
	gate := trust.NewHolder(first)

	next := first.Spec()
	next.Generation++
	next.Issuers[0].RevokedEpochs = append(next.Issuers[0].RevokedEpochs, 37)
	second, err := trust.New(next)
	if err != nil {
		panic(err)
	}
	text, err := second.Encode()
	if err != nil {
		panic(err)
	}
	envelope, err := trust.SignRotation(text, root)
	if err != nil {
		panic(err)
	}
	if err := gate.Rotate(envelope); err != nil {
		panic(err)
	}
	g := grant.Grant{Issuer: "registry-a", IssuerEpoch: 37, PolicyGeneration: 12}
	fmt.Println(gate.Bundle().Generation(), sdk.CodeOf(gate.Bundle().CheckCurrent(&g)))
	// Output: 2 REVOKED
}
