// Package seal holds the key with which packages of this module, and no
// others, make an sdk.Admission. It guards against mistakes, not malice:
// enforcement begins when the workers' own permission to write the protected
// data is gone.
package seal

// Key opens the constructor of sdk.Admission. The zero Key opens nothing, so
// that a value made without naming this package (by type inference, say) is of
// no use.
type Key struct{ cut bool }

// Cut returns a working key.
func Cut() Key { return Key{cut: true} }

// Fits reports whether k came from Cut.
func (k Key) Fits() bool { return k.cut }
