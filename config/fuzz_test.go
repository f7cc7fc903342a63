package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad feeds a file and one environment variable to the loaders: they never
// panic, every error is an *Error whose problems have a source and a rule, and
// what loads is valid.
func FuzzLoad(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.hcl")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, "HEARTH_CONFIG_NETWORK_BIND=::1")
	}
	f.Add([]byte(strings.Repeat("[", 1000)), "HEARTH_CONFIG_=")
	f.Add([]byte(`data_dir = "${upper("x")}"`), "HEARTH_CONFIG_GOSSIP_JOIN=,,")
	f.Fuzz(func(t *testing.T, src []byte, env string) {
		if len(src) > MaxFileBytes {
			return
		}
		m, _, err := loadMaster(src, "f.hcl", []string{env}, nil)
		checkLoaded(t, err, m.Validate)
		w, _, err := loadWorker(src, "f.hcl", []string{env}, nil)
		checkLoaded(t, err, w.Validate)
	})
}

func checkLoaded(t *testing.T, err error, validate func() error) {
	t.Helper()
	if err == nil {
		if err := validate(); err != nil {
			t.Errorf("loaded, but not valid: %v", err)
		}
		return
	}
	var problems *Error
	if !errors.As(err, &problems) || len(problems.Problems) == 0 {
		t.Fatalf("got error %v, want an *Error with problems", err)
	}
	for _, p := range problems.Problems {
		if p.Source == "" || p.Rule == "" {
			t.Errorf("problem %+v lacks a source or a rule", p)
		}
	}
}

// The HCL parser recurses: brackets nested through a file of 64 KiB once filled
// its stack, which no recover can catch.
func TestTheDeepestFileThatFitsIsOnlyAnError(t *testing.T) {
	for _, open := range []string{"[", "(", "{x=", "a{", "!", "-", "\"${", "1?1:", "%{if x}"} {
		src := "data_dir = " + strings.Repeat(open, (MaxFileBytes-16)/len(open))
		if open == "a{" {
			src = strings.Repeat(open, MaxFileBytes/len(open))
		}
		if _, _, err := loadMaster([]byte(src), "deep.hcl", nil, nil); err == nil {
			t.Errorf("%q repeated: got no error", open)
		}
	}
}
