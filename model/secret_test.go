package model

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestASecretIsShownByNoVerbAndNoEncoder(t *testing.T) {
	const text = "open-sesame"
	entities := []any{
		Secret(text),
		struct{ Hidden Secret }{text},
		[]Secret{text},
		map[string]Secret{"key": text},
		App{ID: "app-1", Token: text},
		&Executor{Secret: text},
		Placement{Secret: text},
		DriverPlacement{Secret: text},
		LaunchOrder{Secret: text},
		DriverHello{Token: text},
		DriverExecutor{Secret: text},
		ExecutorHello{Secret: text},
	}
	hexed := fmt.Sprintf("%x", text)
	for _, e := range entities {
		for verb := range strings.SplitSeq("%v %+v %#v %s %q %x %X %d %t %c %U %e %08.3f %T", " ") {
			got := fmt.Sprintf(verb, e)
			if strings.Contains(got, text) || strings.Contains(strings.ToLower(got), hexed) || strings.Contains(got, "111 112 101 110") {
				t.Errorf("%s of %T shows the secret: %s", verb, e, got)
			}
		}
		encoded, err := json.Marshal(e)
		if err != nil || strings.Contains(string(encoded), text) {
			t.Errorf("as JSON %T is %s, %v: want no secret", e, encoded, err)
		}
	}
	if got := Secret(text).Reveal(); got != text {
		t.Errorf("revealed, the secret is %q, want %q", got, text)
	}
	if got := fmt.Sprintf("%v|%d", Secret(""), Secret("")); got != "|" {
		t.Errorf("no secret at all prints as %q, want nothing: it tells that there is none", got)
	}
}

// What is called a secret or opens a session has the type that hides it.
func TestFieldsNamedAsSecretsAreSecrets(t *testing.T) {
	for _, e := range []any{
		App{}, Executor{}, Placement{}, DriverPlacement{}, LaunchOrder{}, DriverHello{}, DriverExecutor{}, ExecutorHello{}, GossipKeyOrder{},
	} {
		typ := reflect.TypeOf(e)
		found := 0
		for f := range typ.Fields() {
			switch f.Name {
			case "Secret", "Token", "Key":
				found++
				if f.Type != reflect.TypeFor[Secret]() {
					t.Errorf("%s.%s is a %s, want a Secret", typ, f.Name, f.Type)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s has no secret any more: take it out of this list", typ)
		}
	}
}
