//go:build e2e

package e2e

func driverMain(how string) int { return 0 }
