// Package source is read by a test.
package source
