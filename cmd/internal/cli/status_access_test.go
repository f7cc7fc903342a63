package cli

import (
	"strings"
	"testing"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
)

// SE-02: what is not asked of people is said, at each start and in the status.
func TestSE02StatusAndStartSayWhatIsAskedOfPeople(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir, tokens, want string
	}{
		{"", config.TokensOptional, "nothing is asked of people: whoever reaches a master is an operator"},
		{"", config.TokensRequired, "people need a token; there is no TLS"},
		{"tls", config.TokensOptional, "people need a client's certificate, which makes them operators; tokens are not required"},
		{"tls", config.TokensRequired, "people need a client's certificate and a token"},
	} {
		conf := config.MasterConfig{}
		conf.TLS.Dir, conf.Access.Tokens = c.dir, c.tokens
		if got := access(conf); got != c.want {
			t.Errorf("at the start, tls %q and tokens %s: got %q, want %q", c.dir, c.tokens, got, c.want)
		}
		var out strings.Builder
		view := model.ClusterView{Access: model.AccessOf(c.dir != "", c.tokens == config.TokensRequired)}
		if err := statusTable(&out, view); err != nil {
			t.Fatal(err)
		}
		if want := "\naccess: " + c.want + "\n"; !strings.Contains(out.String(), want) {
			t.Errorf("status, tls %q and tokens %s: got %q, want the line %q", c.dir, c.tokens, out.String(), want)
		}
	}
	var out strings.Builder
	if err := statusTable(&out, model.ClusterView{}); err != nil || strings.Contains(out.String(), "access:") {
		t.Errorf("a master that does not say: got %q and %v, want no line", out.String(), err)
	}
}
