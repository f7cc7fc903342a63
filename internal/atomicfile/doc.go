// Package atomicfile replaces small files in one step: after a crash at any
// moment the file holds the old content or the new one, never a mix, and once
// Write has returned it is the new one.
//
// It imports nothing of ours; any package may import it.
package atomicfile
