package kb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/workflow"
)

// Environment variables of agents.
const (
	chatURL   = "QUARRY_CHAT_URL"
	chatModel = "QUARRY_CHAT_MODEL"
	chatKey   = "QUARRY_CHAT_KEY"
)

type runCmd struct {
	Workflow string `arg:"" help:"File with the workflow's JSON."`

	Store   string   `placeholder:"DIR" help:"Store whose bases the workflow searches."`
	Cluster []string `placeholder:"URL" help:"Nodes of the cluster that keeps the indexes of the store's bases."`
	Var     []string `sep:"none" placeholder:"NAME=TEXT" help:"Input variable, such as user_message=…; may be repeated."`
	models.Flags
	Reranker string `default:"late" placeholder:"NAME" help:"What the model cross-encoder stands for: late, none, or a service as in kb search --rerank."`
	Trace    bool   `help:"Add the trace of the nodes to the result, and tell on stderr what runs."`
	jsonAlways
}

func (runCmd) Help() string {
	return `Checks the whole workflow before anything runs. Prints the result as one line of JSON: {"outputs": {variable: value}, "error": null or {"node", "type", "code", "message"}}, with --trace also "trace": [{"node", "type", "status", "start_ms", "elapsed_ms", "outputs", …}]. Exit code 1 when a node failed.

    quarry run support.json --store store --var user_message="How do I get a refund?"

Agents ask an OpenAI-compatible service: QUARRY_CHAT_URL is its base URL (https://api.openai.com/v1), QUARRY_CHAT_KEY the key, QUARRY_CHAT_MODEL the model of nodes that name none. Nothing is sent anywhere without QUARRY_CHAT_URL; a workflow's JSON names models only. --embed serves ai-search nodes.`
}

// Validate checks the flags.
func (c *runCmd) Validate() error {
	_, verr := variables(c.Var)
	_, err := embedderName(c.Flags)
	return errors.Join(verr, err, (&rerankFlag{c.Reranker}).validate())
}

// variables reads what --var gives.
func variables(specs []string) (map[string]any, error) {
	out := map[string]any{}
	for _, v := range specs {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--var %s: want NAME=TEXT", v)
		}
		out[name] = value
	}
	return out, nil
}

// outcome is a result without its trace.
type outcome struct {
	Outputs map[string]any        `json:"outputs"`
	Error   *workflow.ErrorObject `json:"error"`
}

// Run runs the workflow.
func (c *runCmd) Run(ctx context.Context, s *session) (err error) {
	data, err := os.ReadFile(c.Workflow)
	if err != nil {
		return err
	}
	w, err := workflow.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Workflow, err)
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	env, err := c.environment(ctx, s, open, typesOf(data))
	if err != nil {
		return err
	}
	input, err := variables(c.Var)
	if err != nil {
		return err
	}
	r, err := w.Run(ctx, env, input)
	if c.Trace {
		return errors.Join(s.JSON(r), err)
	}
	return errors.Join(s.JSON(outcome{r.Outputs, r.Error}), err)
}

// environment opens what the nodes of the workflow need, and leaves out what
// the command line does not name: a node that misses it says so.
func (c *runCmd) environment(ctx context.Context, s *session, open *resources, types map[string]bool) (*workflow.Environment, error) {
	env := &workflow.Environment{}
	if types[workflow.TypeSearch] && c.Store != "" {
		infos, err := bases(ctx, c.Store)
		if err != nil {
			return nil, err
		}
		if env.Store, err = open.store(ctx, c.Store, false, embeddersOf(infos)...); err != nil {
			return nil, err
		}
	}
	if types[workflow.TypeAISearch] {
		name, err := embedderName(c.Flags)
		if err != nil {
			return nil, err
		}
		if env.Embedder, err = open.embedder(ctx, name); err != nil {
			return nil, err
		}
	}
	if types[workflow.TypeRerank] || types[workflow.TypeAISearch] {
		rr, err := (&rerankFlag{c.Reranker}).reranker(ctx, open)
		if err != nil {
			return nil, err
		}
		if rr != nil {
			env.Rerankers = map[string]rerank.Reranker{workflow.DefaultRerankModel: rr}
		}
	}
	if types[workflow.TypeAgent] {
		var err error
		if env.Chat, err = openChat(open); err != nil {
			return nil, err
		}
	}
	if c.Trace {
		env.OnEvent = func(e workflow.Event) {
			if e.Kind == workflow.EventRun {
				s.Notef("run %s (%s)", e.Node, e.Type)
			}
		}
	}
	return env, nil
}

// openChat is the service that the environment names, nil without one.
func openChat(open *resources) (chat.Model, error) {
	url := getenv(chatURL)
	if url == "" {
		return nil, nil
	}
	o := chat.Options{Model: getenv(chatModel), Call: call.Options{BaseURL: url}}
	if getenv(chatKey) != "" {
		o.Call.KeyEnv = chatKey
	}
	model, err := chat.New(o)
	if err != nil {
		return nil, err
	}
	open.closers = append(open.closers, model.Close)
	return model, nil
}

// typesOf are the types of the nodes of a workflow that was checked.
func typesOf(data []byte) map[string]bool {
	var w struct {
		Nodes []struct {
			Type string `json:"type"`
		} `json:"nodes"`
	}
	out := map[string]bool{}
	if json.Unmarshal(data, &w) == nil {
		for _, n := range w.Nodes {
			out[n.Type] = true
		}
	}
	return out
}
