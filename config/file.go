package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// file applies an HCL file: sections as blocks without labels, keys as
// attributes with constant values. Whatever is not known is a problem.
func (l *loader) file(src []byte, path string) {
	if line, deep := tooDeep(src); deep {
		l.bad(fmt.Sprintf("%s:%d", path, line), "", "", fmt.Sprintf("must not nest brackets deeper than %d", maxDepth))
		return
	}
	f, diags := hclsyntax.ParseConfig(src, path, hcl.Pos{Line: 1, Column: 1})
	for _, d := range diags {
		l.bad(at(path, d.Subject), "", "", diagnosis(d))
	}
	if diags.HasErrors() {
		return // what a half-parsed file means is a guess
	}
	body, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return // the parser returns no other type
	}
	l.attributes(path, "", body)
	seen := make(map[string]bool)
	for _, block := range body.Blocks {
		source := at(path, block.TypeRange.Ptr())
		switch {
		case !l.hasSection(l.keys, block.Type):
			l.bad(source, block.Type, "", "no such section"+l.sectionHint(block.Type))
			continue
		case seen[block.Type]:
			l.bad(source, block.Type, "", "section is given twice")
		case len(block.Labels) > 0:
			l.bad(source, block.Type, block.Labels[0], "a section has no label")
		}
		seen[block.Type] = true
		l.attributes(path, block.Type, block.Body)
		for _, inner := range block.Body.Blocks {
			l.bad(at(path, inner.TypeRange.Ptr()), block.Type+"."+inner.Type, "", "a section has no sections inside"+l.keyHint(block.Type, inner.Type))
		}
	}
}

// tooDeep reports whether brackets and templates nest deeper than maxDepth, and
// the line where. The parser spends some 13 KiB of stack on each level, and a
// stack that is full ends the process; the lexer does not recurse.
func tooDeep(src []byte) (line int, deep bool) {
	// Errors of the lexer are the parser's to report.
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.Pos{Line: 1, Column: 1})
	depth := 0
	for _, token := range tokens {
		switch token.Type { //nolint:exhaustive // only what opens and closes
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			depth--
		}
		if depth > maxDepth {
			return token.Range.Start.Line, true
		}
	}
	return 0, false
}

// attributes applies the keys of one section in the order of the file.
func (l *loader) attributes(path, section string, body *hclsyntax.Body) {
	attrs := make([]*hclsyntax.Attribute, 0, len(body.Attributes))
	for _, attr := range body.Attributes {
		attrs = append(attrs, attr)
	}
	slices.SortFunc(attrs, func(a, b *hclsyntax.Attribute) int {
		return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte
	})
	for _, attr := range attrs {
		source := at(path, attr.NameRange.Ptr())
		i := slices.IndexFunc(l.keys, func(k key) bool { return k.section == section && k.name == attr.Name })
		if i < 0 {
			field := key{section: section, name: attr.Name}.field()
			l.bad(source, field, "", "no such key"+l.keyHint(section, attr.Name))
			continue
		}
		k := l.keys[i]
		val, diags := attr.Expr.Value(nil)
		if diags.HasErrors() {
			l.bad(source, k.field(), "", diagnosis(diags[0]))
			continue
		}
		parts, rule := texts(val, k.value)
		if rule != "" {
			l.bad(source, k.field(), "", rule)
			continue
		}
		l.set(k, source, parts)
	}
}

// texts converts an HCL value to what value.set takes, or says what it must be.
func texts(val cty.Value, v value) (parts []string, rule string) {
	if val.IsNull() || !val.IsWhollyKnown() {
		return nil, "must have a value"
	}
	t := val.Type()
	switch {
	case v.shape == scalar:
		s, ok := primitive(val)
		if !ok {
			return nil, fmt.Sprintf("must be one %s, not %s", v.kind, t.FriendlyName())
		}
		return []string{s}, ""
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		for _, elem := range val.AsValueSlice() {
			s, ok := primitive(elem)
			if !ok {
				return nil, "must be a list of strings"
			}
			parts = append(parts, s)
		}
		return parts, ""
	case v.shape == mapping && (t.IsObjectType() || t.IsMapType()):
		return pairs(val)
	case v.shape == mapping:
		return nil, fmt.Sprintf("must be an object, as in { name = \"value\" }, not %s", t.FriendlyName())
	default:
		return nil, fmt.Sprintf("must be a list of strings, not %s", t.FriendlyName())
	}
}

// pairs converts an object to "name=value" texts, sorted by name; a list becomes
// "name=a,b".
func pairs(val cty.Value) (parts []string, rule string) {
	for name, elem := range val.AsValueMap() {
		if strings.Contains(name, "=") {
			return nil, fmt.Sprintf("the name %q must not contain =", clip(name))
		}
		s, ok := primitive(elem)
		if !ok {
			elems, rule := texts(elem, value{shape: list})
			if rule != "" {
				return nil, fmt.Sprintf("%q must be a string or a list of strings", clip(name))
			}
			if slices.ContainsFunc(elems, func(e string) bool { return strings.Contains(e, ",") }) {
				return nil, fmt.Sprintf("the elements of %q must not contain a comma", clip(name))
			}
			s = strings.Join(elems, ",")
		}
		parts = append(parts, name+"="+s)
	}
	slices.Sort(parts)
	return parts, ""
}

// primitive returns a string, number or boolean as text.
func primitive(val cty.Value) (string, bool) {
	if val.IsNull() || !val.Type().IsPrimitiveType() {
		return "", false
	}
	s, err := convert.Convert(val, cty.String)
	if err != nil {
		return "", false
	}
	return s.AsString(), true
}

// at is "file:line".
func at(path string, r *hcl.Range) string {
	if r == nil {
		return path
	}
	return fmt.Sprintf("%s:%d", path, r.Start.Line)
}

// diagnosis puts a diagnostic of the parser on one line.
func diagnosis(d *hcl.Diagnostic) string {
	text := d.Summary
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return strings.ToLower(text[:1]) + strings.Join(strings.Fields(text[1:]), " ")
}

func (l *loader) hasSection(keys []key, section string) bool {
	return section != "" && slices.ContainsFunc(keys, func(k key) bool { return k.section == section })
}

// sectionHint tells a section of another kind of process, a key without its
// section, and a spelling mistake apart.
func (l *loader) sectionHint(section string) string {
	if l.hasSection(l.others, section) {
		return " for this kind of process"
	}
	names := make([]string, 0, len(l.keys))
	for _, k := range l.keys {
		if k.section != "" && !slices.Contains(names, k.section) {
			names = append(names, k.section)
		}
	}
	return didYouMean(section, names)
}

// keyHint does the same for a key.
func (l *loader) keyHint(section, name string) string {
	var names []string
	for _, k := range l.keys {
		if k.name == name {
			return fmt.Sprintf("; it is %s", k.field())
		}
		if k.section == section {
			names = append(names, k.name)
		}
	}
	if slices.ContainsFunc(l.others, func(k key) bool { return k.section == section && k.name == name }) {
		return " for this kind of process"
	}
	return didYouMean(name, names)
}
