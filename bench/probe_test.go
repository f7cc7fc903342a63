package bench

import (
	"errors"
	"os"
	"testing"
)

func TestTheProbesAnswer(t *testing.T) {
	dir := t.TempDir()
	took, err := SyncProbe(t.Context(), dir, 3, 256, 2)
	if err != nil || len(took) != 6 {
		t.Errorf("disk: %v %v", took, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the disk probe left %v, %v", left, err)
	}
	if rate, err := SpawnProbe(t.Context(), []string{"true"}, 2, 5); err != nil || rate <= 0 {
		t.Errorf("spawn: %v %v", rate, err)
	}
	if _, err := SpawnProbe(t.Context(), []string{"false"}, 1, 1); err == nil {
		t.Error("a program that fails was counted")
	}
	if took, err := LoopbackProbe(t.Context(), 256, 10); err != nil || len(took) != 10 {
		t.Errorf("loopback: %v %v", took, err)
	}
}

func TestAFileSystemInMemoryIsRefused(t *testing.T) {
	const shm = "/dev/shm"
	if _, err := os.Stat(shm); err != nil {
		t.Skip("no memory file system here")
	}
	if err := CheckDurable(shm); !errors.Is(err, ErrNotDurable) {
		t.Errorf("got %v", err)
	}
}
