package web

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Field is one field of a view, by its name in the JSON.
type Field struct{ Name, Value string }

// fieldsOf lists the fields of a view struct, so that a page with details shows whatever the JSON has. Lists of views are
// left out: they are tables of their own.
func fieldsOf(view any) []Field {
	v := reflect.ValueOf(view)
	var out []Field
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct {
			continue
		}
		out = append(out, Field{name, fieldText(f.Interface())})
	}
	return out
}

// fieldText writes a value as the JSON has it, texts without quotes.
func fieldText(v any) string {
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.String {
		return rv.String()
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // html/template escapes
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}
