package conformance

import (
	"maps"
	"strings"
)

// close lets no object have a property that the document does not name. The document itself leaves
// the objects of answers open, because fields may be added to them. A test must notice such a field.
//
// An object inside an allOf stays open, because the other parts have properties too. So each
// reference in an allOf is replaced with a copy.
func (d *Document) close() {
	for _, root := range []string{"/components/schemas", "/components/responses", "/paths"} {
		d.closeBelow(d.value(root))
	}
}

// closeBelow closes the schemas at a value and below it.
func (d *Document) closeBelow(value any) {
	switch at := value.(type) {
	case []any:
		for _, child := range at {
			d.closeBelow(child)
		}
	case map[string]any:
		parts, whole := at["allOf"].([]any)
		for i := range parts {
			part := d.copySchema(parts[i])
			d.closeBelow(part["properties"])
			parts[i] = part
		}
		for name, child := range at {
			if name != "allOf" {
				d.closeBelow(child)
			}
		}
		_, object := at["properties"].(map[string]any)
		if (whole || object) && at["additionalProperties"] == nil {
			at["unevaluatedProperties"] = false
		}
	}
}

// copySchema returns an open copy of a schema, or of the one to which its reference leads.
func (d *Document) copySchema(schema any) map[string]any {
	original, _ := schema.(map[string]any)
	if ref, ok := original["$ref"].(string); ok {
		original = d.object(strings.TrimPrefix(ref, "#"))
	}
	open := maps.Clone(original)
	delete(open, "unevaluatedProperties")
	return open
}
