package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/hearthd/hearth/model"
)

// ReadToken reads the file with a person's token; "" for no path. A file that
// others may read is refused: the token in it must be taken for known.
func ReadToken(path string) (model.Secret, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("client.token_file: must be a readable file: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return "", fmt.Errorf("client.token_file %s: must be readable by its owner alone, its mode is %04o: chmod 600 it, and have a new token made if others could read it", path, perm)
	}
	text, err := readRegular(path, model.MaxBearerBytes+2)
	if err != nil {
		return "", fmt.Errorf("client.token_file %s: %w", path, err)
	}
	token, err := model.ParseBearer(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("client.token_file %s: %w", path, err)
	}
	return token, nil
}
