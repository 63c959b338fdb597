package acquirer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// emit stores the present body of an object, the event that it has changed, and the webhooks of the event.
func (a *Acquirer) emit(ctx context.Context, tx pgx.Tx, q request, kind string, o object) error {
	if err := update(ctx, tx, o); err != nil {
		return err
	}
	// The event shows the object as it is now, and later changes of the object must not change it.
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	e := object{
		"id": newID("evt_"), "object": kindEvent, "type": kind, "api_version": apiVersion,
		"created": time.Now().Unix(), "livemode": a.options.Livemode, "pending_webhooks": int64(1),
		"data": object{"object": json.RawMessage(body)}, "request": object{"id": nil, "idempotency_key": nil},
	}
	if q.id != "" {
		e["request"] = object{"id": q.id, "idempotency_key": orNull(q.key)}
	}
	intentID := o.text("payment_intent")
	if o.text("object") == kindIntent {
		intentID = o.text("id")
	}
	if err := insert(ctx, tx, e, intentID, ""); err != nil {
		return err
	}
	return a.sender.schedule(ctx, tx, e.text("id"))
}

// apiVersion is that of an account that was made long ago: an event has the account's version, not that of a library.
const apiVersion = "2024-06-20"

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
