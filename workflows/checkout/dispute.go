package checkout

import (
	"encoding/json"
	"time"

	"example.com/checkout/workflows/money"
)

// DisputeStatus is the state of a dispute.
type DisputeStatus string

// A warning is a question of the customer's bank: no money has moved. A dispute that is won or lost may be decided
// anew.
const (
	DisputeWarning       DisputeStatus = "warning"
	DisputeNeedsResponse DisputeStatus = "needs_response"
	DisputeUnderReview   DisputeStatus = "under_review"
	DisputeWon           DisputeStatus = "won"
	DisputeLost          DisputeStatus = "lost"
)

// DisputeStatuses lists every state of a dispute.
var DisputeStatuses = []DisputeStatus{
	DisputeWarning, DisputeNeedsResponse, DisputeUnderReview, DisputeWon, DisputeLost,
}

// Dispute is a payment that the customer denies at the bank.
type Dispute struct {
	Ref // dp_…

	SessionID     string
	TransactionID string
	Status        DisputeStatus
	Reason        string // the card network's word, such as "fraudulent"; "" when it is unknown
	Amount        money.Amount
	Currency      money.Currency
	Fee           money.Amount // that the card network takes; in Currency
	RespondBy     *time.Time   // until when the bank takes evidence; nil when it wants none
	Metadata      json.RawMessage
	CreatedAt     time.Time
	ClosedAt      *time.Time // when it was won or lost last

	EvidenceAt      *time.Time // when the merchant submitted evidence last; nil without evidence
	EvidenceSentAt  *time.Time // when the card network took it
	EvidenceFailure EvidenceFailure
	TakesEvidence   bool // the bank takes evidence at present, as far as this service knows
	EvidenceStands  bool // what was submitted is all that can be sent
}

// EvidenceFailure is why the card network did not take evidence; "" while it may take it.
type EvidenceFailure string

// EvidenceNotAccepted: the time for evidence was over, the bank wanted none, or the card network refused it for good.
const EvidenceNotAccepted EvidenceFailure = "not_accepted"

// MayRespond returns nil when evidence can be submitted, else ErrEvidenceSubmitted or ErrDisputeNotOpen.
func (d Dispute) MayRespond() error {
	switch {
	case d.EvidenceStands:
		return ErrEvidenceSubmitted
	case !d.TakesEvidence:
		return ErrDisputeNotOpen
	}
	return nil
}

// disputeEvidence is the member evidence of a dispute object.
type disputeEvidence struct {
	SubmittedAt string           `json:"submitted_at"`
	SentAt      *string          `json:"sent_at"`
	Failure     *EvidenceFailure `json:"failure"`
}

func (d Dispute) evidence() *disputeEvidence {
	if d.EvidenceAt == nil {
		return nil
	}
	return &disputeEvidence{FormatTime(*d.EvidenceAt), FormatOptionalTime(d.EvidenceSentAt), orNull(d.EvidenceFailure)}
}

// MarshalJSON writes the dispute object of dispute.* events and of the REST API. Source: api/decisions/objects.md,
// "dispute".
func (d Dispute) MarshalJSON() ([]byte, error) {
	return EncodeJSON(struct {
		ID            string           `json:"id"`
		SessionID     string           `json:"session_id"`
		TransactionID string           `json:"transaction_id"`
		Status        DisputeStatus    `json:"status"`
		Reason        *string          `json:"reason"`
		Amount        money.Amount     `json:"amount"`
		Currency      money.Currency   `json:"currency"`
		Fee           money.Amount     `json:"fee"`
		RespondBy     *string          `json:"respond_by"`
		Evidence      *disputeEvidence `json:"evidence"`
		Metadata      json.RawMessage  `json:"metadata"`
		Livemode      bool             `json:"livemode"`
		CreatedAt     string           `json:"created_at"`
		ClosedAt      *string          `json:"closed_at"`
	}{
		ID: d.ID, SessionID: d.SessionID, TransactionID: d.TransactionID, Status: d.Status, Reason: orNull(d.Reason),
		Amount: d.Amount, Currency: d.Currency, Fee: d.Fee, RespondBy: FormatOptionalTime(d.RespondBy),
		Evidence: d.evidence(), Metadata: d.Metadata, Livemode: d.Mode.Live(), CreatedAt: FormatTime(d.CreatedAt),
		ClosedAt: FormatOptionalTime(d.ClosedAt),
	})
}
