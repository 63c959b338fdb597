package api

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// listDisputes serves GET /v1/disputes, newest first.
func (s *Server) listDisputes(r *http.Request) (int, any, error) {
	q := readQuery(r, "status", "session")
	filter := storage.DisputeFilter{
		Status:    optionalChoice(q, "status", checkout.DisputeStatuses),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixDispute, filter, s.Store.Disputes.Disputes)
}

// submitEvidence serves POST /v1/disputes/{id}/evidence.
func (s *Server) submitEvidence(r *http.Request, d checkout.Dispute) (int, any, error) {
	evidence, err := readEvidence(r)
	if err != nil {
		return 0, nil, err
	}
	got, err := s.actions.SubmitEvidence(r.Context(), storage.EvidenceOrder{
		RequestID: newID(r.Context(), checkout.PrefixEvidence), Dispute: d.Ref, Evidence: evidence,
	}, actor(r))
	return http.StatusAccepted, got, err
}

// readEvidence reads the body with evidence. The error has all faults of the body.
func readEvidence(r *http.Request) (e checkout.Evidence, err error) {
	f, err := readObject(r, "texts", "files")
	if err != nil {
		return e, err
	}
	e = checkout.Evidence{Texts: f.texts("texts", checkout.EvidenceTexts), Files: map[string][]byte{}}
	for field, text := range f.texts("files", checkout.EvidenceFiles) {
		file, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			f.add("files."+field, "must be the content of the file in base64")
		}
		e.Files[field] = file
	}
	if err := f.err(); err != nil {
		return e, err
	}
	for field, text := range e.Texts {
		f.unfit("texts."+field, checkout.Evidence{Texts: map[string]string{field: text}})
	}
	for field, file := range e.Files {
		f.unfit("files."+field, checkout.Evidence{Files: map[string][]byte{field: file}})
	}
	if len(e.Texts)+len(e.Files) == 0 {
		return e, invalid("Send at least one text or file.")
	}
	if unfit, ok := errors.AsType[*checkout.EvidenceError](e.Check()); ok && len(*f.faults) == 0 {
		return e, invalid("This is too much: " + unfit.Why + ".")
	}
	slices.SortFunc(*f.faults, func(a, b fault) int { return strings.Compare(a.Param, b.Param) })
	return e, f.err()
}

// texts returns the texts of an optional object with known members, and adds a fault for each other value.
func (f fields) texts(name string, known []string) map[string]string {
	texts := map[string]string{}
	value, ok := f.optional(name)
	if !ok {
		return texts
	}
	if value.Kind() != '{' {
		f.add(name, "must be an object")
		return texts
	}
	members, err := objectMembers(value)
	if err != nil { // cannot happen after checkSyntax
		f.add(name, "must be valid JSON")
	}
	for _, m := range members {
		at := name + "." + shorten(m.name)
		if !slices.Contains(known, m.name) {
			f.add(at, "is not a known field"+suggestField(m.name, known))
		} else if text, ok := f.text(at, m.value); ok {
			texts[m.name] = text
		}
	}
	return texts
}

// unfit adds a fault when the card network would not take e, which is the value at param.
func (f fields) unfit(param string, e checkout.Evidence) {
	if unfit, ok := errors.AsType[*checkout.EvidenceError](e.Check()); ok && unfit.Field != "" {
		f.add(param, unfit.Why)
	}
}
