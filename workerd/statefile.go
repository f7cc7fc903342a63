//go:build linux

package workerd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hearthd/hearth/internal/atomicfile"
)

// writeState replaces the file at path by the JSON of v. When it returns nil the new content is on
// disk; after a crash the file holds either the old or the new content, never a mix.
func writeState(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return atomicfile.Write(path, append(b, '\n'), 0o600)
}

// readState fills v from the file at path. A missing file is an error that wraps fs.ErrNotExist.
func readState(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxStateFileBytes+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxStateFileBytes {
		return fmt.Errorf("read %s: larger than %d bytes", path, maxStateFileBytes)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: there is something behind the object", path)
	}
	return nil
}
