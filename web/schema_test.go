package web

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record the present schema")

// OB-06: monitoring reads the JSON, so no release may take a field away.
func TestOB06NoFieldOfTheJSONIsRemovedOrRetyped(t *testing.T) {
	now := PresentSchema()
	if *update {
		data, err := json.MarshalIndent(now, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("schema.json", append(data, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		schemaJSON = append(data, '\n')
	}
	var recorded Schema
	if err := json.Unmarshal(schemaJSON, &recorded); err != nil {
		t.Fatal(err)
	}
	for path, fields := range recorded.Answers {
		for name, kind := range fields {
			switch present, there := now.Answers[path][name]; {
			case !there:
				t.Errorf("%s has lost the field %s within version %d", path, name, recorded.Version)
			case present != kind:
				t.Errorf("%s: field %s was %s and is %s now", path, name, kind, present)
			}
		}
	}
	for path, fields := range now.Answers {
		for name := range fields {
			if _, there := recorded.Answers[path][name]; !there {
				t.Errorf("%s has the field %s, which schema.json does not record: go test ./web -run OB06 -update", path, name)
			}
		}
	}
	if recorded.Version == 0 || recorded.Version != now.Version {
		t.Errorf("version %d recorded, %d now", recorded.Version, now.Version)
	}
}

// The schema says what is really answered.
func TestOB06EveryAnswerHasAVersionAndTheFieldsOfTheSchema(t *testing.T) {
	h := handlerOf(waitingFake())
	schema := PresentSchema()
	for path, target := range map[string]string{
		"/v1/cluster": "/v1/cluster", "/v1/masters": "/v1/masters", "/v1/workers": "/v1/workers?q=alpha", "/v1/workers/{id}": "/v1/workers/worker-1111111111",
		"/v1/apps": "/v1/apps?ended=1", "/v1/apps/{id}": "/v1/apps/app-20261130120000-0001", "/v1/alarms": "/v1/alarms", "/v1/drivers": "/v1/drivers?ended=1", "/v1/drivers/{id}": "/v1/drivers/driver-20261130120000-0001", "/v1/queue": "/v1/queue", "/v1/why/{id}": "/v1/why/app-20261130120000-0002", "/v1/schema": "/v1/schema", "/json": "/json",
	} {
		var answer map[string]any
		if err := json.Unmarshal(ask(h, http.MethodGet, target).Body.Bytes(), &answer); err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		if answer["version"] == nil {
			t.Errorf("%s has no version", target)
		}
		for name, kind := range schema.Answers[path] {
			if strings.Contains(name, ".") {
				continue // nested ones are made by the same code
			}
			value, there := answer[name]
			if got := jsonKind(value); !there || !strings.HasPrefix(kind, got) {
				t.Errorf("%s: field %s is %s (there: %t); the schema says %s", target, name, got, there, kind)
			}
		}
		for name := range answer {
			if schema.Answers[path][name] == "" {
				t.Errorf("%s has the field %s, which the schema lacks", target, name)
			}
		}
	}
}

// jsonKind begins the name of a decoded value's type.
func jsonKind(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		return "integer"
	case []any:
		return "array of "
	case map[string]any:
		return "" // an object or a map
	}
	return "null"
}

func TestTheSchemaOfAnEmbeddingStructIsThatOfItsJSON(t *testing.T) {
	fields := PresentSchema().Answers["/json"]
	for name, want := range map[string]string{
		"workers": "array of object", "workers.resources": "map of object", "workers.coresused": "integer", "workers.cores_used": "integer", "resources": "array of map of object",
	} {
		if fields[name] != want {
			t.Errorf("%s: got %q, want %q", name, fields[name], want)
		}
	}
}
