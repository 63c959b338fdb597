package storage

import (
	"bytes"
	"encoding/json"
	"strings"
)

// eraseJSON returns a JSON text without a customer's data: metadata but for its order id, the e-mail address, and what
// tells one card from another. Members keep their type. A text that is not JSON becomes null.
func eraseJSON(text []byte, email string) json.RawMessage {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if len(text) == 0 {
		return text
	}
	if decoder.Decode(&value) != nil {
		return json.RawMessage("null")
	}
	return encoded(eraseValue(value, email))
}

func eraseValue(value any, email string) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = eraseMember(name, member, email)
		}
	case []any:
		for i := range v {
			v[i] = eraseValue(v[i], email)
		}
	case string:
		if namesAddress(v, email) {
			return "[erased]"
		}
	}
	return value
}

func eraseMember(name string, value any, email string) any {
	switch name {
	case "customer_email":
		return nil
	case "metadata":
		members, _ := value.(map[string]any)
		return keptMembers(members, email)
	case "last4": // as in erasedMethod
		return "0000"
	case "exp_month":
		return 1
	case "exp_year":
		return 2000
	}
	return eraseValue(value, email)
}

// keptMetadata returns the part of a session's metadata that belongs to the books: the order id.
func keptMetadata(metadata json.RawMessage, email string) json.RawMessage {
	var members map[string]any
	if json.Unmarshal(metadata, &members) != nil {
		members = nil
	}
	return encoded(keptMembers(members, email))
}

func keptMembers(members map[string]any, email string) map[string]any {
	kept := map[string]any{}
	if id, ok := members["order_id"].(string); ok && !namesAddress(id, email) {
		kept["order_id"] = id
	}
	return kept
}

// namesAddress is names in Go.
func namesAddress(text, email string) bool {
	text = strings.NewReplacer("%40", "@", "%2b", "+").Replace(strings.ToLower(text))
	return strings.Contains(text, email)
}

func encoded(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage("null") // cannot happen: the value came from JSON
	}
	return text
}
