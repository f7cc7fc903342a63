package config

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// readRegular returns the content of a regular file of at most limit bytes. A
// pipe or device is refused before it is opened, because opening one can block.
func readRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("must be a readable file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("must be a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("must be a readable file: %w", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("must be a readable file: %w", err)
	}
	if int64(len(src)) > limit {
		return nil, fmt.Errorf("must be at most %d bytes", limit)
	}
	return src, nil
}
