//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// driverVariable makes the test binary a program with drivers in it; see
// driverMain.
const driverVariable = "E2E_DRIVERS"

// hearthBinary is built once, by TestMain, and not written afterwards.
var hearthBinary string

func TestMain(m *testing.M) {
	if how := os.Getenv(driverVariable); how != "" {
		os.Exit(driverMain(how))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hearth-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	hearthBinary = filepath.Join(dir, "hearth")
	args := append([]string{"build"}, buildFlags...)
	build := exec.Command("go", append(args, "-o", hearthBinary, "github.com/hearthd/hearth/cmd/hearth")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build hearth:", err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
