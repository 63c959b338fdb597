package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/workflows"
)

// Replay returns an error when this program cannot go on with a run. It also reads the run's input and the results
// and messages in its history, and more strictly than the workers do: the program must know each field, and each
// field that the program always writes must be there. A field that was renamed would be empty, without an error.
func Replay(run workflow.Execution, history *historypb.History) error {
	strict := &strictJSON{JSONPayloadConverter: converter.NewJSONPayloadConverter()}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(), strict),
		// A busy computer may take longer than a second.
		DisableDeadlockDetection: true,
	})
	if err != nil {
		return err
	}
	known := register(replayer)
	if name := history.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName(); !known[name] {
		return errors.New("this version does not have the workflow")
	}
	err = replayer.ReplayWorkflowHistoryWithOptions(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), history,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: run})
	return cmp.Or(strict.fault, err)
}

// register registers all workflows and returns their names.
func register(replayer worker.WorkflowReplayer) map[string]bool {
	r := registry{WorkflowReplayer: replayer, names: map[string]bool{}}
	workflows.RegisterCheckout(r)
	workflows.RegisterWebhooks(r)
	return r.names
}

// registry makes a replayer a worker.WorkflowRegistry.
type registry struct {
	worker.WorkflowReplayer

	names map[string]bool
}

func (r registry) RegisterWorkflowWithOptions(story any, o workflow.RegisterOptions) {
	r.names[o.Name] = true
	r.WorkflowReplayer.RegisterWorkflowWithOptions(story, o)
}

// RegisterDynamicWorkflow is needed for the interface only.
func (registry) RegisterDynamicWorkflow(any, workflow.DynamicRegisterOptions) {}

// strictJSON reads JSON of which it knows every field. It keeps the first fault, because a workflow may go on after it.
type strictJSON struct {
	*converter.JSONPayloadConverter

	fault error
}

func (s *strictJSON) FromPayload(payload *commonpb.Payload, into any) error {
	err := readStrictly(payload.GetData(), into)
	if err != nil && s.fault == nil {
		s.fault = fmt.Errorf("%s %w", reflect.TypeOf(into).Elem(), err)
	}
	return err
}

func readStrictly(stored []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(stored))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	again, err := json.Marshal(into)
	if err != nil {
		return err
	}
	var before, after map[string]json.RawMessage
	if json.Unmarshal(stored, &before) != nil || json.Unmarshal(again, &after) != nil {
		return nil //nolint:nilerr // no object: it has no fields
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			return fmt.Errorf("has no field %q", name)
		}
	}
	return nil
}
