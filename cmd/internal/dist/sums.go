package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// sumsFile is in the format of sha256sum.
const sumsFile = "SHA256SUMS"

// writeSums writes the digests of all files directly in dir.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return fmt.Errorf("write digests: %w", err)
	}
	var out bytes.Buffer
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == sumsFile {
			continue
		}
		sum, err := fileSum(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sum, e.Name())
	}
	return writeFile(filepath.Join(dir, sumsFile), out.Bytes())
}

func fileSum(path string) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("take a digest: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("take the digest of %s: %w", path, err)
	}
	return h.Sum(nil), nil
}
