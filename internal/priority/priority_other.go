//go:build !linux

package priority

// Raise does nothing: the nice value of a whole process is Linux's business
// here.
func Raise(int) (raised bool, err error) { return false, nil }
