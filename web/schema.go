package web

import (
	_ "embed"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/hearthd/hearth/model"
)

// schemaJSON is the recorded schema of the JSON answers. A test fails when an answer loses or retypes a field of it.
//
//go:embed schema.json
var schemaJSON []byte

// Schema describes the JSON answers: for each path its fields with their types, those in lists and objects under the path
// of their parents.
type Schema struct {
	Version int                          `json:"version"`
	Answers map[string]map[string]string `json:"answers"`
}

// PresentSchema is the schema of this build.
func PresentSchema() Schema {
	s := Schema{Version: model.ViewVersion, Answers: make(map[string]map[string]string)}
	for path, view := range map[string]any{
		"/v1/cluster": model.ClusterView{}, "/v1/masters": MastersView{}, "/v1/workers": WorkersView{}, "/v1/workers/{id}": WorkerDetail{},
		"/v1/apps": AppsView{}, "/v1/apps/{id}": AppDetail{}, "/v1/alarms": AlarmsView{}, "/v1/drivers": DriversView{}, "/v1/drivers/{id}": DriverDetail{}, "/v1/queue": model.WaitingView{}, "/v1/why/{id}": model.Why{}, "/v1/schema": Schema{}, "/json": sparkMaster{},
	} {
		fields := make(map[string]string)
		schemaOf(reflect.TypeOf(view), "", fields)
		s.Answers[path] = fields
	}
	return s
}

// schemaOf notes the fields of a struct under prefix.
func schemaOf(t reflect.Type, prefix string, out map[string]string) {
	fields := make(map[string]reflect.Type)
	jsonFields(t, fields)
	for name, ft := range fields {
		kind, nested := jsonType(ft)
		out[prefix+name] = kind
		if nested != nil {
			schemaOf(nested, prefix+name+".", out)
		}
	}
}

// jsonFields collects the fields that encoding/json writes: of two with the same JSON name the outer one.
func jsonFields(t reflect.Type, out map[string]reflect.Type) {
	for _, embedded := range []bool{true, false} {
		for f := range t.Fields() {
			if f.Anonymous != embedded {
				continue
			}
			if embedded {
				jsonFields(f.Type, out)
				continue
			}
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				out[name] = f.Type
			}
		}
	}
}

// jsonType names a type as JSON has it, and returns the struct in it.
func jsonType(t reflect.Type) (kind string, nested reflect.Type) {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean", nil
	case reflect.String:
		return "string", nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer", nil
	case reflect.Slice:
		inner, nested := jsonType(t.Elem())
		return "array of " + inner, nested
	case reflect.Map:
		inner, nested := jsonType(t.Elem())
		return "map of " + inner, nested
	case reflect.Struct:
		return "object", t
	case reflect.Pointer:
		return jsonType(t.Elem())
	default:
		panic(fmt.Sprintf("no JSON type for %s", t))
	}
}

func (h *Handler) v1Schema(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(schemaJSON) // the client may be gone
	return nil
}
