package cas

import "github.com/fencedstore/fencedstore/sdk"

// HeadName is the object of a resource's head.
func HeadName(namespace string, r sdk.ResourceID) string { return namesOf(namespace, r).head() }
