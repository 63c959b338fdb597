package acquirer

import (
	"encoding/json"
	"time"
)

// emit stores the present body of an object, the event that it has changed, and the webhooks of the event.
func (d desk) emit(kind string, o object) error {
	if err := d.update(o); err != nil {
		return err
	}
	// The event shows the object as it is now, and later changes of the object must not change it.
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	e := object{
		"id": newID("evt_"), "object": kindEvent, "type": kind, "api_version": apiVersion,
		"created": time.Now().Unix(), "livemode": d.options.Livemode, "pending_webhooks": int64(1),
		"data": object{"object": json.RawMessage(body)}, "request": object{"id": nil, "idempotency_key": nil},
	}
	if d.requestID != "" {
		e["request"] = object{"id": d.requestID, "idempotency_key": orNull(d.key)}
	}
	intentID := o.text("payment_intent")
	if o.text("object") == kindIntent {
		intentID = o.text("id")
	}
	if err := d.insert(e, intentID, ""); err != nil {
		return err
	}
	return d.sender.schedule(d.ctx, d.tx, e.text("id"))
}

// apiVersion is that of an account that was made long ago: an event has the account's version, not that of a library.
const apiVersion = "2024-06-20"

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
