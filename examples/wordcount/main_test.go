package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hearthd/hearth/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheProgramSaysWhatItsFlagsAre(t *testing.T) {
	var stderr bytes.Buffer
	code := driver.Run(t.Context(), setup, driver.Invocation{Args: []string{"wordcount", "--help"}, Stderr: &stderr})
	if code != driver.CodeOK || !strings.Contains(stderr.String(), "--masters") {
		t.Errorf("code %d:\n%s", code, stderr.String())
	}
}
