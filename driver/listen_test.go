package driver

import (
	"errors"
	"testing"

	"github.com/hearthd/hearth/model"
)

func TestTheDriverListensWhereExecutorsCanCome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		masters []string
		want    string
	}{
		"all masters on loopback": {[]string{"127.0.0.1:1", "[::1]:2", "localhost:3"}, "127.0.0.1"},
		"no masters known":        {nil, "127.0.0.1"},
	} {
		got, err := ReachableHost(t.Context(), c.masters)
		if err != nil || got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
	if _, err := ReachableHost(t.Context(), []string{"nonsense"}); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("a bad address: %v", err)
	}
}
