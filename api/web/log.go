package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// LogFailure logs an error that is answered with a status of 500 or more. The line has the
// request's id and route, but nothing that the caller sent. Other errors are the caller's mistakes
// and are not logged.
func LogFailure(r *http.Request, log *slog.Logger, server string, status int, err error, more ...slog.Attr) {
	if status < http.StatusInternalServerError {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", Method(r)), slog.String("route", r.Pattern), slog.Int("status", status),
		slog.String("request_id", RequestID(r.Context())),
	}
	log.LogAttrs(r.Context(), Level(status, err), server, append(append(attrs, more...), ErrorAttrs(err)...)...)
}

// Level returns the log level of an answer. A fault of the service is an error. A 503 is a warning,
// because another system did not answer; it is information when the caller had gone.
func Level(status int, err error) slog.Level {
	switch {
	case status < http.StatusInternalServerError:
		return slog.LevelInfo
	case status != http.StatusServiceUnavailable:
		return slog.LevelError
	case errors.Is(err, context.Canceled):
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// ErrorAttrs returns the error's text and, for a panic, its stack.
func ErrorAttrs(err error) []slog.Attr {
	attrs := []slog.Attr{slog.String("error", err.Error())}
	if p, ok := errors.AsType[*Panic](err); ok {
		attrs = append(attrs, slog.String("stack", p.Stack))
	}
	return attrs
}
